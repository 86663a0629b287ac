-- Beginnings of words are looked up among the words. Lists for all beginnings of two and three letters were three fifths
-- of this index and a tenth of the time of writing many memories; searches for such a beginning gained little by them.
drop table if exists memories_words;
create virtual table memories_words using fts5(
  title, content, tags, source, segments, facts,
  content = memories_live, content_rowid = rid,
  tokenize = 'unicode61 remove_diacritics 2'
);
insert into memories_words(memories_words, rank) values ('usermerge', 2);
insert into memories_words(memories_words, rank) values ('hashsize', 16777216);
insert into memories_words(memories_words) values ('rebuild');
insert into memories_words(memories_words) values ('optimize');

-- One trigger for a new vector, not three: to start one takes as long as most of what they do.
drop trigger if exists vectors_embedded;
drop trigger if exists vectors_parts_insert;
drop trigger if exists vectors_log_insert;
create trigger vectors_log_insert after insert on vectors begin
  delete from unembedded where rid = new.rid;
  delete from uncut where rid = new.rid;
  insert into vector_log(rid) values (new.rid);
  insert into vector_blocks(namespace, model, block)
    select m.namespace, new.model, new.rid >> 10
    from memories m
    where m.rid = new.rid and not exists (
      select 1 from vector_blocks b
      where b.model = new.model and b.namespace = m.namespace and b.block = new.rid >> 10 and b.data is null)
    on conflict (model, block, namespace) do update set data = null where data is not null;
end;
