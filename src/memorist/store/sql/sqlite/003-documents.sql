-- Files, the chunks they were cut into, and the parts of long memories.
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

-- Texts from before there were parts, and perhaps too long for one vector: the next `reembed` makes theirs anew.
create table uncut (
  rid integer primary key references memories(rid) on delete cascade
) strict;
insert into uncut(rid) select rid from memories where length(content) > 512 and rid in (select rid from vectors);

create trigger vectors_parts_update after update on vectors begin
  delete from part_vectors where rid = old.rid and model = old.model;
  delete from uncut where rid = new.rid;
end;
create trigger vectors_parts_insert after insert on vectors begin
  delete from uncut where rid = new.rid;
end;
create trigger vectors_parts_delete after delete on vectors begin
  delete from part_vectors where rid = old.rid and model = old.model;
end;
