-- Other programs read and write this file with plain SQL, by the names and columns that mcb gave them.

-- `snippet(observations_fts, 0, ...)` is that of the content only where the content is the first column.
drop view if exists observations_fts;
drop table if exists memories_stems;
drop table if exists memories_words;
create virtual table memories_stems using fts5(
  content, title, tags, source, segments, facts,
  content = memories_live, content_rowid = rid,
  tokenize = 'porter unicode61 remove_diacritics 2'
);
create virtual table memories_words using fts5(
  content, title, tags, source, segments, facts,
  content = memories_live, content_rowid = rid,
  tokenize = 'unicode61 remove_diacritics 2'
);
insert into memories_stems(memories_stems, rank) values ('usermerge', 2);
insert into memories_stems(memories_stems, rank) values ('hashsize', 16777216);
insert into memories_stems(memories_stems) values ('rebuild');
insert into memories_stems(memories_stems) values ('optimize');
insert into memories_words(memories_words, rank) values ('usermerge', 2);
insert into memories_words(memories_words, rank) values ('hashsize', 16777216);
insert into memories_words(memories_words) values ('rebuild');
insert into memories_words(memories_words) values ('optimize');

-- The live memories, and their index, to be joined by `id` or by `rowid`.
create view observations as
  select rid as rowid, id, content, namespace, project, title, summary, kind, tags, source, sector, tier, salience,
    metadata, created_at, updated_at
  from memories
  where deleted_at is null;
create view observations_fts as
  select m.id, f.content, f.memories_stems as observations_fts, f.rank, f.rowid as rowid
  from memories_stems f
  join memories m on m.rid = f.rowid;

-- SQL alone has no SHA-256. A text that it writes is marked as one without a hash, which tells it from damage: that
-- leaves the hash of the text that was there before. A hash has 32 bytes, and a mark is another for every row.
create trigger memories_unhashed_insert after insert on memories when length(new.content_hash) <> 32 begin
  update memories set content_hash = cast('unhashed ' || new.rid as blob) where rid = new.rid;
end;
create trigger memories_unhashed_update after update of content on memories
when new.content is not old.content and new.content_hash is old.content_hash begin
  update memories set content_hash = cast('unhashed ' || new.rid as blob) where rid = new.rid;
end;
