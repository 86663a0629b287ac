-- From the last schema of before the first release, made by 17 migrations, to that of 001-schema.sql.
-- What this leaves differs from a new database in nothing but how its statements are laid out.

delete from _migrations;  -- that of 001-schema.sql takes the place of all

-- For processes of an older version, which packed no parts.
drop trigger if exists vector_blocks_without_parts;

-- One log of what changed, not two.
create table changes (
  seq integer primary key autoincrement,
  rid integer not null,
  what integer not null  -- a sum: 1 any column, 2 its text, or if it is live, 4 its vector, or if it is live
) strict;

drop trigger memories_log_text;
drop trigger memories_log_removal;
drop trigger memories_log_liveness;
drop trigger vectors_log_insert;
drop trigger if exists vectors_log_update;
drop trigger if exists vectors_log_delete;
drop trigger if exists vectors_parts_update;
drop trigger if exists vectors_parts_delete;
drop table text_log;
drop table vector_log;

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
create trigger memories_open_block after update of deleted_at on memories
when (old.deleted_at is null) <> (new.deleted_at is null) begin
  update vector_blocks set data = null
    where model in (select model from models) and block = new.rid >> 10
      and namespace = new.namespace and data is not null;
end;

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

-- Vectors of few dimensions are packed as they are stored, not rounded any more.
update vector_blocks set data = null, parts = null where model in (select model from models where dimensions < 128);

-- Marks (Mc, Mn) are a part of words: without them, an Indic word would be cut at each vowel sign. Those of emoji, which
-- cannot be seen, are not: between the quotes of `separators` are U+FE00 to U+FE0F.
drop table if exists memories_stems;
drop table if exists memories_words;
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

insert into memories_stems(memories_stems, rank) values ('usermerge', 2);
insert into memories_stems(memories_stems, rank) values ('hashsize', 16777216);
insert into memories_words(memories_words, rank) values ('usermerge', 2);
insert into memories_words(memories_words, rank) values ('hashsize', 16777216);
insert into memories_stems(memories_stems) values ('rebuild');
insert into memories_words(memories_words) values ('rebuild');
