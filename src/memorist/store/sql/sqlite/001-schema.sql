-- The schema of a database.
-- The text stands in `memories`, once; whatever else is here follows it by triggers or can be made again from it.
-- What changes keeps what it was before, so that the past can be asked (`as_of`).
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
  facts text,  -- the texts of its facts, for the full-text indexes
  recorded_at integer not null default 0,  -- when it was written down
  valid_until integer,  -- since when it is superseded; follows `relations` by trigger
  pinned integer not null default 0,
  access_count integer not null default 0,
  accessed_at integer,
  expires_at integer,  -- from then on nothing finds it; the next writes erase it
  unique (namespace, id)
) strict;

-- The same text twice in one project is one memory, whichever process comes first.
create unique index memories_once on memories(namespace, coalesce(project, ''), content_hash) where deleted_at is null;
create index memories_by_time on memories(namespace, created_at, rid);
-- Which memories pass a filter, answered without touching their text.
create index memories_scope on memories(
  namespace, project, sector, tier, kind, source, created_at, salience, valid_until, pinned) where deleted_at is null;
create index memories_superseded on memories(namespace) where valid_until is not null and deleted_at is null;
create index memories_pinned on memories(namespace) where pinned = 1 and deleted_at is null;
create index memories_by_ending on memories(namespace, substr(id, -6));
create index memories_forgotten on memories(deleted_at) where deleted_at is not null;
create index memories_expiring on memories(namespace, expires_at) where expires_at is not null;

-- Other programs write memories with SQL alone, and do not know of every column.
create trigger memories_recorded after insert on memories when new.recorded_at = 0 begin
  update memories set recorded_at = new.updated_at where rid = new.rid;
end;

-- SQL alone has no SHA-256. A text that it writes is marked as one without a hash, which tells it from damage: that
-- leaves the hash of the text that was there before. A hash has 32 bytes, and a mark is another for every row.
create trigger memories_unhashed_insert after insert on memories when length(new.content_hash) <> 32 begin
  update memories set content_hash = cast('unhashed ' || new.rid as blob) where rid = new.rid;
end;
create trigger memories_unhashed_update after update of content on memories
when new.content is not old.content and new.content_hash is old.content_hash begin
  update memories set content_hash = cast('unhashed ' || new.rid as blob) where rid = new.rid;
end;

create table memory_tags (
  tag text not null,
  rid integer not null references memories(rid) on delete cascade,
  primary key (tag, rid)
) strict, without rowid;
create index memory_tags_by_memory on memory_tags(rid);

-- Most memories have no tags, and json_each takes as long as half of the row.
create trigger memories_tags_insert after insert on memories when new.tags <> '[]' begin
  insert or ignore into memory_tags(tag, rid) select value, new.rid from json_each(new.tags);
end;

create trigger memories_tags_update after update of tags on memories begin
  delete from memory_tags where rid = old.rid;
  insert or ignore into memory_tags(tag, rid) select value, new.rid from json_each(new.tags);
end;

-- An index of fields of metadata, for filters by them. The fields are named by their paths, as JSON lists of keys.
-- A list stands for its items, to one level, as in filters.

create table indexed_fields (
  field integer primary key autoincrement,
  namespace text not null,
  path text not null check (json_valid(path)),
  unique (namespace, path)
) strict;

-- Long texts are cut, and numbers are rounded: the index narrows a filter down, and the metadata decide.
create table memory_fields (
  field integer not null references indexed_fields(field) on delete cascade,
  kind text not null,
  text text not null,  -- '' unless the kind is text
  number real not null,  -- 0 unless it is a number
  rid integer not null references memories(rid) on delete cascade,
  primary key (field, kind, text, number, rid)
) strict, without rowid;
create index memory_fields_by_memory on memory_fields(rid);

-- What is at the path of each field, before lists are taken apart.
create view field_nodes as
  select i.field, m.rid, a.type, a.value, a.atom
  from indexed_fields i
  cross join memories m on m.namespace = i.namespace
  cross join json_each(iif(json_valid(m.metadata), m.metadata, '{}')) a
  where json_array_length(i.path) = 1 and a.key = i.path ->> 0
  union all
  select i.field, m.rid, b.type, b.value, b.atom
  from indexed_fields i
  cross join memories m on m.namespace = i.namespace
  cross join json_each(iif(json_valid(m.metadata), m.metadata, '{}')) a
  cross join json_each(
    case a.type when 'array' then a.value when 'object' then json_array(json(a.value)) else '[]' end) item
  cross join json_each(iif(item.type = 'object', item.value, '{}')) b
  where json_array_length(i.path) = 2 and a.key = i.path ->> 0 and b.key = i.path ->> 1
  union all
  select i.field, m.rid, c.type, c.value, c.atom
  from indexed_fields i
  cross join memories m on m.namespace = i.namespace
  cross join json_each(iif(json_valid(m.metadata), m.metadata, '{}')) a
  cross join json_each(
    case a.type when 'array' then a.value when 'object' then json_array(json(a.value)) else '[]' end) item
  cross join json_each(iif(item.type = 'object', item.value, '{}')) b
  cross join json_each(
    case b.type when 'array' then b.value when 'object' then json_array(json(b.value)) else '[]' end) part
  cross join json_each(iif(part.type = 'object', part.value, '{}')) c
  where json_array_length(i.path) = 3 and a.key = i.path ->> 0 and b.key = i.path ->> 1 and c.key = i.path ->> 2;

-- The rows that `memory_fields` has to have.
create view field_values as
  select field,
    iif(type in ('integer', 'real'), 'number', type) as kind,
    iif(type = 'text', substr(atom, 1, 200), '') as text,
    iif(type in ('integer', 'real'), atom, 0) + 0.0 as number,
    rid
  from (
    select field, rid, type, atom from field_nodes
    union all
    select n.field, n.rid, v.type, v.atom
    from field_nodes n
    cross join json_each(iif(n.type = 'array', n.value, '[]')) v);

create trigger memories_fields_insert after insert on memories
when new.metadata <> '{}' and exists (select 1 from indexed_fields where namespace = new.namespace) begin
  insert or ignore into memory_fields(field, kind, text, number, rid)
    select field, kind, text, number, rid from field_values where rid = new.rid;
end;
create trigger memories_fields_update after update of metadata on memories begin
  delete from memory_fields where rid = old.rid;
  insert or ignore into memory_fields(field, kind, text, number, rid)
    select field, kind, text, number, rid from field_values where rid = new.rid;
end;

-- Full text: one stemmed index for words, one unstemmed for beginnings of words (a stem is no beginning).
-- Both read their content from the view of live rows, so that a rebuild never brings back what was forgotten.
-- Marks (Mc, Mn) are a part of words: without them, an Indic word would be cut at each vowel sign. Those of emoji, which
-- cannot be seen, are not: between the quotes of `separators` are U+FE00 to U+FE0F.

create view memories_live as
  select rid, title, content, tags, source, segments, facts
  from memories
  where deleted_at is null;

create virtual table memories_stems using fts5(
  content, title, tags, source, segments, facts,
  content = memories_live, content_rowid = rid,
  tokenize = 'porter unicode61 remove_diacritics 2 categories ''L* N* Co Mc Mn'' separators ''︀︁︂︃︄︅︆︇︈︉︊︋︌︍︎️'''
);
create virtual table memories_words using fts5(
  content, title, tags, source, segments, facts,
  content = memories_live, content_rowid = rid,
  tokenize = 'unicode61 remove_diacritics 2 categories ''L* N* Co Mc Mn'' separators ''︀︁︂︃︄︅︆︇︈︉︊︋︌︍︎️'''
);

-- A merge that is asked for joins segments from two on, not from four. And an index gathers words in memory and writes
-- them as one segment: with room for some ten thousand memories, a large batch leaves one segment, not ten.
insert into memories_stems(memories_stems, rank) values ('usermerge', 2);
insert into memories_stems(memories_stems, rank) values ('hashsize', 16777216);
insert into memories_words(memories_words, rank) values ('usermerge', 2);
insert into memories_words(memories_words, rank) values ('hashsize', 16777216);

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
-- One trigger with guarded statements: two triggers would run in an order nobody chose, and an index entry that is
-- removed twice corrupts the index.
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

-- Which memories changed or went, in order, and what of them: how what is held in memory keeps up without reading
-- everything again. New memories are known by their rids, which only grow, so that adding one costs nothing here.

create table changes (
  seq integer primary key autoincrement,
  rid integer not null,
  what integer not null  -- a sum: 1 any column, 2 its text, or if it is live, 4 its vector, or if it is live
) strict;

create trigger memories_log_update after update on memories begin
  insert into changes(rid, what) values (
    new.rid,
    iif((old.deleted_at is null) <> (new.deleted_at is null), 7, iif(
      old.content is not new.content or old.title is not new.title or old.tags is not new.tags
      or old.source is not new.source or old.segments is not new.segments or old.facts is not new.facts, 3, 1)));
end;
create trigger memories_log_delete after delete on memories begin
  insert into changes(rid, what) values (old.rid, 7);
end;

-- Other programs read this file with plain SQL, by the names and columns that mcb gave them: the live memories, and their
-- index, to be joined by `id` or by `rowid`. A view that hands on the hidden columns of the index is searched like it.
create view observations as
  select rid as rowid, id, content, namespace, project, title, summary, kind, tags, source, sector, tier, salience,
    metadata, created_at, updated_at
  from memories
  where deleted_at is null;
create view observations_fts as
  select m.id, f.content, f.memories_stems as observations_fts, f.rank, f.rowid as rowid
  from memories_stems f
  join memories m on m.rid = f.rowid;

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

-- The parts of a memory that is too long for one vector, each with its own. They come and go with its vector.
create table part_vectors (
  part integer primary key autoincrement,
  rid integer not null references memories(rid) on delete cascade,
  model integer not null references models(model),
  first integer not null,  -- characters of the content: from, and up to
  last integer not null,
  vector blob not null
) strict;
create index part_vectors_by_memory on part_vectors(rid, model);

-- Memories that came with a vector of their own and none of their parts: the next `reembed` makes those.
create table uncut (
  rid integer primary key references memories(rid) on delete cascade
) strict;

-- 1024 neighbouring rids at a time, packed for reading in one piece. `data` is null where rows have changed since;
-- those are read one by one until somebody packs them again.
create table vector_blocks (
  namespace text not null,
  model integer not null references models(model),
  block integer not null,
  data blob,
  parts blob,  -- the vectors of parts, packed at the same time
  primary key (model, block, namespace)
) strict;
create index vector_blocks_open on vector_blocks(model, namespace, block) where data is null;

create trigger vector_blocks_opened after update of data on vector_blocks
when new.data is null and new.parts is not null begin
  update vector_blocks set parts = null where model = new.model and block = new.block and namespace = new.namespace;
end;

-- What follows new vectors is done for all of them at once by those who insert them: a trigger takes longer than a vector.
create trigger vectors_log_update after update on vectors begin
  delete from unembedded where rid = new.rid;
  delete from uncut where rid = new.rid;
  delete from part_vectors where rid = old.rid and model = old.model;
  insert into changes(rid, what) values (new.rid, 4);
  update vector_blocks set data = null where model = new.model and block = new.rid >> 10 and data is not null;
end;
create trigger vectors_log_delete after delete on vectors begin
  delete from part_vectors where rid = old.rid and model = old.model;
  insert into changes(rid, what) values (old.rid, 4);
  update vector_blocks set data = null where model = old.model and block = old.rid >> 10 and data is not null;
end;

create trigger memories_open_block after update of deleted_at on memories
when (old.deleted_at is null) <> (new.deleted_at is null) begin
  update vector_blocks set data = null
    where model in (select model from models) and block = new.rid >> 10
      and namespace = new.namespace and data is not null;
end;

-- What a memory was before: its text, its vector, its strength. A row holds what was until `replaced_at`.

create table memory_history (
  rid integer not null references memories(rid) on delete cascade,
  version integer not null,
  replaced_at integer not null,
  snapshot text not null check (json_valid(snapshot)),
  primary key (rid, version)
) strict, without rowid;
create index memory_history_by_time on memory_history(replaced_at, rid);

create table old_vectors (
  rid integer not null references memories(rid) on delete cascade,
  version integer not null,
  model integer not null references models(model),
  vector blob not null,
  primary key (rid, version, model)
) strict, without rowid;

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
  deleted_at integer,  -- it can be forgotten with the memories that were made in it, and restored with them
  unique (namespace, id)
) strict;
create index sessions_by_time on sessions(namespace, started_at, sid);

create table session_memories (
  rid integer not null references memories(rid) on delete cascade,
  sid integer not null references sessions(sid) on delete cascade,
  usage text not null check (usage in ('created', 'recalled', 'updated', 'reinforced')),
  at integer not null,  -- the first time, and
  latest integer not null,
  position integer,  -- its place among those created there: in the order of writing, with gaps where some were erased
  primary key (rid, sid, usage)
) strict, without rowid;
create index session_memories_by_session on session_memories(sid, rid);
create index session_memories_by_position on session_memories(sid, position) where position is not null;

-- The session that a memory was made in, and its place there, count as columns of it.
create trigger session_memories_log_insert after insert on session_memories when new.usage = 'created' begin
  insert into changes(rid, what) values (new.rid, 1);
end;
create trigger session_memories_log_update after update on session_memories when new.usage = 'created' begin
  insert into changes(rid, what) values (new.rid, 1);
end;
create trigger session_memories_log_delete after delete on session_memories when old.usage = 'created' begin
  insert into changes(rid, what) values (old.rid, 1);
end;
create trigger sessions_log_liveness after update of deleted_at on sessions begin
  insert into changes(rid, what) select rid, 1 from session_memories where sid = new.sid and usage = 'created';
end;

-- An import writes none: the position follows the order of writing.
create trigger session_memories_position after insert on session_memories
when new.usage = 'created' and new.position is null begin
  update session_memories
  set position = 1 + coalesce(
    (select max(position) from session_memories where sid = new.sid and position is not null), 0)
  where rid = new.rid and sid = new.sid and usage = 'created';
end;

-- What was asked, by which surface, and what came back, with what it put into a prompt (null: no prompt was written).
-- The text of a memory there is gone when the memory is erased. `facts` are the ids of the memory's facts at that time.

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
  surface text,
  tokens integer,
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
  prompt text,
  primary key (recall, place)
) strict, without rowid;
create index recalled_by_memory on recalled(rid, recall);

create table lenses (
  namespace text not null,
  name text not null,
  definition text not null check (json_valid(definition)),
  primary key (namespace, name)
) strict, without rowid;

-- What people said of answers: whether a memory was a good one to a question. The latest word on both counts.

create table feedback (
  feedback integer primary key autoincrement,
  rid integer not null references memories(rid) on delete cascade,
  query text not null check (length(query) > 0),
  good integer not null check (good in (0, 1)),
  at integer not null,
  unique (rid, query)
) strict;
create index feedback_by_question on feedback(query);

-- Files, and the chunks they were cut into.
-- A chunk is a row of `memories`, so that everything that finds memories finds chunks; it stands in a namespace beside
-- the one it belongs to, so that nothing takes it for something that was said.

create table documents (
  did integer primary key autoincrement,
  id text not null,
  namespace text not null,  -- the namespace it belongs to; its chunks are in the one beside it
  path text not null,
  root text not null,
  project text,
  title text,
  sector text not null,
  tags text not null default '[]' check (json_valid(tags)),
  front_matter text not null default '{}' check (json_valid(front_matter)),
  size integer not null,
  modified_at integer not null,  -- nanoseconds, as the file system has it
  hash blob not null,
  redacted integer not null,  -- whether secrets were taken out of it
  indexed_at integer not null,
  unique (namespace, path)
) strict;
create index documents_by_hash on documents(namespace, hash);

create table chunks (
  rid integer primary key references memories(rid) on delete cascade,
  did integer not null references documents(did) on delete cascade,
  ordinal integer not null,
  start_line integer not null,
  end_line integer not null,
  breadcrumb text not null default '[]' check (json_valid(breadcrumb))
) strict;
create index chunks_by_document on chunks(did, ordinal);

-- Where a document points: a path relative to it, or the name of a note.
create table document_links (
  did integer not null references documents(did) on delete cascade,
  line integer not null,
  target text not null,
  text text not null,
  primary key (did, line, target, text)
) strict, without rowid;
create index document_links_by_target on document_links(target);

-- What was erased, so that no import of the same transcript brings it back. A digest of an id, keyed by a random salt,
-- tells neither the id nor the text. Imports from other databases bring salts of their own.

create table erased (
  erasure integer primary key autoincrement,
  namespace text not null,
  salt text not null,
  digest text not null,
  erased_at integer not null,
  unique (namespace, salt, digest)
) strict;

-- How often each namespace was written to: whoever follows one is not told when others write.

create table namespace_changes (
  namespace text primary key,
  changes integer not null
) strict, without rowid;
