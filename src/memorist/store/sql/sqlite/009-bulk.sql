-- Writing many memories at once.

-- A full-text index gathers words in memory and writes them as one segment: with room for some ten thousand memories, a
-- large batch leaves one segment, not ten to be merged again.
insert into memories_stems(memories_stems, rank) values ('hashsize', 16777216);
insert into memories_words(memories_words, rank) values ('hashsize', 16777216);

-- Most memories have no tags, and json_each takes as long as half of the row.
drop trigger memories_tags_insert;
create trigger memories_tags_insert after insert on memories when new.tags <> '[]' begin
  insert or ignore into memory_tags(tag, rid) select value, new.rid from json_each(new.tags);
end;

-- The block of a vector is mostly open already.
drop trigger vectors_log_insert;
create trigger vectors_log_insert after insert on vectors begin
  insert into vector_log(rid) values (new.rid);
  insert into vector_blocks(namespace, model, block)
    select m.namespace, new.model, new.rid >> 10
    from memories m
    where m.rid = new.rid and not exists (
      select 1 from vector_blocks b
      where b.model = new.model and b.namespace = m.namespace and b.block = new.rid >> 10 and b.data is null)
    on conflict (model, block, namespace) do update set data = null where data is not null;
end;
