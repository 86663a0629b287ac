-- Memories, their full-text indexes and their vectors.
-- The text stands in `memories`, once; whatever else is here follows it by triggers or can be made again from it.
-- Times are microseconds since 1970 in UTC.

create table memories (
  rid integer primary key autoincrement,  -- never reused: indexes and vectors join on it
  id text not null,
  namespace text not null,
  project text,
  content text not null check (length(content) > 0),
  content_hash blob not null,
  title text,
  summary text,
  kind text,
  source text,
  tags text not null default '[]' check (json_valid(tags)),
  segments text,  -- pairs of neighbouring characters, for scripts that put no space between words
  sector text not null,
  tier text not null,
  salience real not null check (salience between 0 and 1),
  metadata text not null default '{}' check (json_valid(metadata)),
  created_at integer not null,
  updated_at integer not null,
  reinforced_at integer not null,
  deleted_at integer,
  unique (namespace, id)
) strict;

-- The same text twice in one project is one memory, whichever process comes first.
create unique index memories_once on memories(namespace, coalesce(project, ''), content_hash) where deleted_at is null;
create index memories_by_time on memories(namespace, created_at, rid);
-- Which memories pass a filter, answered without touching their text.
create index memories_scope on memories(namespace, project, sector, tier, kind, source, created_at, salience)
  where deleted_at is null;
create index memories_by_ending on memories(namespace, substr(id, -6));
create index memories_forgotten on memories(deleted_at) where deleted_at is not null;

create table memory_tags (
  tag text not null,
  rid integer not null references memories(rid) on delete cascade,
  primary key (tag, rid)
) strict, without rowid;
create index memory_tags_by_memory on memory_tags(rid);

create trigger memories_tags_insert after insert on memories begin
  insert or ignore into memory_tags(tag, rid) select value, new.rid from json_each(new.tags);
end;
create trigger memories_tags_update after update of tags on memories begin
  delete from memory_tags where rid = old.rid;
  insert or ignore into memory_tags(tag, rid) select value, new.rid from json_each(new.tags);
end;

create table memory_history (
  rid integer not null references memories(rid) on delete cascade,
  version integer not null,
  replaced_at integer not null,
  snapshot text not null check (json_valid(snapshot)),
  primary key (rid, version)
) strict, without rowid;

-- Full text: one stemmed index for words, one unstemmed for beginnings of words (a stem is no beginning).
-- Both read their content from the view of live rows, so that a rebuild never brings back what was forgotten.

create view memories_live as
  select rid, title, content, tags, source, segments
  from memories
  where deleted_at is null;

create virtual table memories_stems using fts5(
  title, content, tags, source, segments,
  content = memories_live, content_rowid = rid,
  tokenize = 'porter unicode61 remove_diacritics 2'
);
create virtual table memories_words using fts5(
  title, content, tags, source, segments,
  content = memories_live, content_rowid = rid,
  tokenize = 'unicode61 remove_diacritics 2', prefix = '2 3'
);

-- A merge that is asked for joins segments from two on, not from four.
insert into memories_stems(memories_stems, rank) values ('usermerge', 2);
insert into memories_words(memories_words, rank) values ('usermerge', 2);

create trigger memories_text_insert after insert on memories when new.deleted_at is null begin
  insert into memories_stems(rowid, title, content, tags, source, segments)
    values (new.rid, new.title, new.content, new.tags, new.source, new.segments);
  insert into memories_words(rowid, title, content, tags, source, segments)
    values (new.rid, new.title, new.content, new.tags, new.source, new.segments);
end;
create trigger memories_text_delete after delete on memories when old.deleted_at is null begin
  insert into memories_stems(memories_stems, rowid, title, content, tags, source, segments)
    values ('delete', old.rid, old.title, old.content, old.tags, old.source, old.segments);
  insert into memories_words(memories_words, rowid, title, content, tags, source, segments)
    values ('delete', old.rid, old.title, old.content, old.tags, old.source, old.segments);
end;
-- One trigger with guarded statements: two triggers would run in an order nobody chose, and an index entry that is
-- removed twice corrupts the index.
create trigger memories_text_update
after update of title, content, tags, source, segments, deleted_at on memories begin
  insert into memories_stems(memories_stems, rowid, title, content, tags, source, segments)
    select 'delete', old.rid, old.title, old.content, old.tags, old.source, old.segments where old.deleted_at is null;
  insert into memories_stems(rowid, title, content, tags, source, segments)
    select new.rid, new.title, new.content, new.tags, new.source, new.segments where new.deleted_at is null;
  insert into memories_words(memories_words, rowid, title, content, tags, source, segments)
    select 'delete', old.rid, old.title, old.content, old.tags, old.source, old.segments where old.deleted_at is null;
  insert into memories_words(rowid, title, content, tags, source, segments)
    select new.rid, new.title, new.content, new.tags, new.source, new.segments where new.deleted_at is null;
end;

-- The shape other tools know: every live memory as (id, content).
create view observations_fts as
  select id, content
  from memories
  where deleted_at is null;

-- Vectors: unit length, float16, one a memory and model.

create table models (
  model integer primary key,
  name text not null unique,
  dimensions integer not null check (dimensions > 0),
  metric text not null default 'cosine'
) strict;

create table vectors (
  rid integer not null references memories(rid) on delete cascade,
  model integer not null references models(model),
  vector blob not null,
  primary key (rid, model)
) strict, without rowid;

-- Texts that have had no vector made since they were written.
create table unembedded (
  rid integer primary key references memories(rid) on delete cascade
) strict;

create trigger memories_unembedded_insert after insert on memories begin
  insert into unembedded(rid) values (new.rid);
end;
create trigger memories_unembedded_update after update of content, title on memories
when old.content is not new.content or old.title is not new.title begin
  delete from vectors where rid = old.rid;
  insert or ignore into unembedded(rid) values (new.rid);
end;
create trigger vectors_embedded after insert on vectors begin
  delete from unembedded where rid = new.rid;
end;

-- 1024 neighbouring rids at a time, packed for reading in one piece. `data` is null where rows have changed since;
-- those are read one by one until somebody packs them again.
create table vector_blocks (
  namespace text not null,
  model integer not null references models(model),
  block integer not null,
  data blob,
  primary key (model, block, namespace)
) strict;
create index vector_blocks_open on vector_blocks(model, namespace, block) where data is null;

-- Which vectors came, changed or went, in order: how a scan in memory keeps up without reading everything again.
create table vector_log (
  seq integer primary key autoincrement,
  rid integer not null
) strict;

create trigger vectors_log_insert after insert on vectors begin
  insert into vector_log(rid) values (new.rid);
  insert into vector_blocks(namespace, model, block)
    select namespace, new.model, new.rid >> 10 from memories where rid = new.rid
    on conflict (model, block, namespace) do update set data = null where data is not null;
end;
create trigger vectors_log_update after update on vectors begin
  delete from unembedded where rid = new.rid;
  insert into vector_log(rid) values (new.rid);
  update vector_blocks set data = null where model = new.model and block = new.rid >> 10 and data is not null;
end;
create trigger vectors_log_delete after delete on vectors begin
  insert into vector_log(rid) values (old.rid);
  update vector_blocks set data = null where model = old.model and block = old.rid >> 10 and data is not null;
end;
create trigger memories_log_liveness after update of deleted_at on memories
when (old.deleted_at is null) <> (new.deleted_at is null) begin
  insert into vector_log(rid) values (new.rid);
  update vector_blocks set data = null
    where model in (select model from models) and block = new.rid >> 10
      and namespace = new.namespace and data is not null;
end;
