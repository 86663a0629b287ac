-- Parts of memories are many now: every few sentences are one. They are packed like the vectors of whole memories, in the
-- same blocks and at the same time.
alter table vector_blocks add column parts blob;

create trigger vector_blocks_opened after update of data on vector_blocks
when new.data is null and new.parts is not null begin
  update vector_blocks set parts = null where model = new.model and block = new.block and namespace = new.namespace;
end;

update vector_blocks set data = null
where exists (select 1 from part_vectors p where p.model = vector_blocks.model and p.rid >> 10 = vector_blocks.block);

-- What was said in several sentences has one vector so far: the next `reembed` makes those of its parts.
insert or ignore into uncut(rid)
select rid from memories
where length(content) > 150 and rid in (select rid from vectors) and rid not in (select rid from chunks);
