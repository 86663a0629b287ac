-- The life of a memory: where it came from, what replaced it, what it is connected to, how sure it is, when it was of
-- use. What changes keeps what it was before, so that the past can be asked (`as_of`).

alter table memories add column facts text;  -- the texts of its facts, for the full-text indexes
alter table memories add column recorded_at integer not null default 0;  -- when it was written down
alter table memories add column valid_until integer;  -- since when it is superseded; follows `relations` by trigger
alter table memories add column pinned integer not null default 0;
alter table memories add column access_count integer not null default 0;
alter table memories add column accessed_at integer;

update memories set recorded_at = coalesce(
  (select h.snapshot ->> 'updated_at' from memory_history h where h.rid = memories.rid and h.version = 1), updated_at);
-- Both times were read from the clock one after the other; what was not dated back was written down as it happened.
update memories set recorded_at = created_at where recorded_at - created_at between 0 and 1000000;
-- A process of the version before may still be at work while this runs.
create trigger memories_recorded after insert on memories when new.recorded_at = 0 begin
  update memories set recorded_at = new.updated_at where rid = new.rid;
end;

drop index memories_scope;
create index memories_scope on memories(
  namespace, project, sector, tier, kind, source, created_at, salience, valid_until, pinned) where deleted_at is null;
create index memories_superseded on memories(namespace) where valid_until is not null and deleted_at is null;
create index memories_pinned on memories(namespace) where pinned = 1 and deleted_at is null;

-- Full text again, with the facts.

drop trigger memories_text_insert;
drop trigger memories_text_delete;
drop trigger memories_text_update;
drop table memories_stems;
drop table memories_words;
drop view memories_live;

create view memories_live as
  select rid, title, content, tags, source, segments, facts
  from memories
  where deleted_at is null;

create virtual table memories_stems using fts5(
  title, content, tags, source, segments, facts,
  content = memories_live, content_rowid = rid,
  tokenize = 'porter unicode61 remove_diacritics 2'
);
create virtual table memories_words using fts5(
  title, content, tags, source, segments, facts,
  content = memories_live, content_rowid = rid,
  tokenize = 'unicode61 remove_diacritics 2', prefix = '2 3'
);
insert into memories_stems(memories_stems, rank) values ('usermerge', 2);
insert into memories_words(memories_words, rank) values ('usermerge', 2);
insert into memories_stems(memories_stems) values ('rebuild');
insert into memories_words(memories_words) values ('rebuild');
-- A rebuild leaves many segments, and every search has to look into each of them.
insert into memories_stems(memories_stems) values ('optimize');
insert into memories_words(memories_words) values ('optimize');

create trigger memories_text_insert after insert on memories when new.deleted_at is null begin
  insert into memories_stems(rowid, title, content, tags, source, segments, facts)
    values (new.rid, new.title, new.content, new.tags, new.source, new.segments, new.facts);
  insert into memories_words(rowid, title, content, tags, source, segments, facts)
    values (new.rid, new.title, new.content, new.tags, new.source, new.segments, new.facts);
end;
create trigger memories_text_delete after delete on memories when old.deleted_at is null begin
  insert into memories_stems(memories_stems, rowid, title, content, tags, source, segments, facts)
    values ('delete', old.rid, old.title, old.content, old.tags, old.source, old.segments, old.facts);
  insert into memories_words(memories_words, rowid, title, content, tags, source, segments, facts)
    values ('delete', old.rid, old.title, old.content, old.tags, old.source, old.segments, old.facts);
end;
create trigger memories_text_update
after update of title, content, tags, source, segments, facts, deleted_at on memories begin
  insert into memories_stems(memories_stems, rowid, title, content, tags, source, segments, facts)
    select 'delete', old.rid, old.title, old.content, old.tags, old.source, old.segments, old.facts
    where old.deleted_at is null;
  insert into memories_stems(rowid, title, content, tags, source, segments, facts)
    select new.rid, new.title, new.content, new.tags, new.source, new.segments, new.facts where new.deleted_at is null;
  insert into memories_words(memories_words, rowid, title, content, tags, source, segments, facts)
    select 'delete', old.rid, old.title, old.content, old.tags, old.source, old.segments, old.facts
    where old.deleted_at is null;
  insert into memories_words(rowid, title, content, tags, source, segments, facts)
    select new.rid, new.title, new.content, new.tags, new.source, new.segments, new.facts where new.deleted_at is null;
end;

-- What a memory was before: its text (memory_history), its vector, its strength. A row holds what was until `replaced_at`.

create index memory_history_by_time on memory_history(replaced_at, rid);

create table old_vectors (
  rid integer not null references memories(rid) on delete cascade,
  version integer not null,
  model integer not null references models(model),
  vector blob not null,
  primary key (rid, version, model)
) strict, without rowid;

drop trigger memories_unembedded_update;
create trigger memories_unembedded_update after update of content, title on memories
when old.content is not new.content or old.title is not new.title begin
  insert or ignore into old_vectors(rid, version, model, vector)
    select v.rid, h.version, v.model, v.vector
    from vectors v
    join memory_history h on h.rid = v.rid
      and h.version = (select max(version) from memory_history where rid = v.rid)
    where v.rid = old.rid;
  delete from vectors where rid = old.rid;
  insert or ignore into unembedded(rid) values (new.rid);
end;

create table strength_history (
  change integer primary key autoincrement,
  rid integer not null references memories(rid) on delete cascade,
  replaced_at integer not null,
  salience real not null,
  reinforced_at integer not null,
  pinned integer not null
) strict;
create index strength_history_by_memory on strength_history(rid, replaced_at);
insert into strength_history(rid, replaced_at, salience, reinforced_at, pinned)
  select h.rid, h.replaced_at, h.snapshot ->> 'salience', m.reinforced_at, 0
  from memory_history h
  join memories m on m.rid = h.rid
  order by h.rid, h.version;

-- Relations: what one memory says of another, since when, and until when it was held to be so.

create table relations (
  relation integer primary key autoincrement,
  source integer not null references memories(rid) on delete cascade,
  target integer not null references memories(rid) on delete cascade,
  kind text not null,
  confidence real not null check (confidence between 0 and 1),
  said_by text,
  valid_from integer not null,
  valid_until integer,
  check (source <> target)
) strict;
create unique index relations_once on relations(source, target, kind) where valid_until is null;
create index relations_by_source on relations(source, kind);
create index relations_by_target on relations(target, kind);
-- A memory is superseded by one other at a time.
create unique index relations_one_successor on relations(target) where kind = 'supersedes' and valid_until is null;

create trigger relations_supersede after insert on relations
when new.kind = 'supersedes' and new.valid_until is null begin
  update memories set valid_until = new.valid_from where rid = new.target;
end;
create trigger relations_change after update of valid_from, valid_until on relations
when new.kind = 'supersedes' and (old.valid_until is null or new.valid_until is null) begin
  update memories set valid_until = iif(new.valid_until is null, new.valid_from, null) where rid = new.target;
end;
create trigger relations_gone after delete on relations
when old.kind = 'supersedes' and old.valid_until is null begin
  update memories set valid_until = null where rid = old.target;
end;

-- Facts: what a memory says, piece by piece, each with how sure it is. A decay rate of null is that of its kind.

create table facts (
  fact integer primary key autoincrement,
  id text not null,
  rid integer not null references memories(rid) on delete cascade,
  text text not null check (length(text) > 0),
  kind text,
  subject text,
  predicate text,
  object text,
  confidence real not null check (confidence between 0 and 1),
  decay_rate real check (decay_rate >= 0),
  created_at integer not null,
  reinforced_at integer not null,
  unique (rid, text)
) strict;
create index facts_by_id on facts(id);
create index facts_by_kind on facts(kind, rid);
create index facts_by_time on facts(created_at, rid);

create table fact_history (
  change integer primary key autoincrement,
  fact integer not null references facts(fact) on delete cascade,
  replaced_at integer not null,
  kind text,
  subject text,
  predicate text,
  object text,
  confidence real not null,
  decay_rate real,
  reinforced_at integer not null
) strict;
create index fact_history_by_fact on fact_history(fact, replaced_at);

-- Sessions, and what was done in them.

create table sessions (
  sid integer primary key autoincrement,
  id text not null,
  namespace text not null,
  project text,
  started_at integer not null,
  ended_at integer,
  summary text,
  unique (namespace, id)
) strict;
create index sessions_by_time on sessions(namespace, started_at, sid);

create table session_memories (
  rid integer not null references memories(rid) on delete cascade,
  sid integer not null references sessions(sid) on delete cascade,
  usage text not null check (usage in ('created', 'recalled', 'updated', 'reinforced')),
  at integer not null,  -- the first time, and
  latest integer not null,
  primary key (rid, sid, usage)
) strict, without rowid;
create index session_memories_by_session on session_memories(sid, rid);

-- What was asked, and what came back. `facts` are the ids of the memory's facts at that time.

create table recalls (
  recall integer primary key autoincrement,
  id text not null,
  namespace text not null,
  at integer not null,
  query text,  -- null: erased with a memory it found
  mode text not null,
  profile text not null,
  lens text,
  sid integer references sessions(sid) on delete set null,
  unique (namespace, id)
) strict;
create index recalls_by_time on recalls(namespace, at, recall);
create index recalls_by_session on recalls(sid) where sid is not null;

create table recalled (
  recall integer not null references recalls(recall) on delete cascade,
  place integer not null,
  rid integer not null references memories(rid) on delete cascade,
  score real not null,
  relevance real not null,
  facts text not null default '[]' check (json_valid(facts)),
  primary key (recall, place)
) strict, without rowid;
create index recalled_by_memory on recalled(rid, recall);

create table lenses (
  namespace text not null,
  name text not null,
  definition text not null check (json_valid(definition)),
  primary key (namespace, name)
) strict, without rowid;
