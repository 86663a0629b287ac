-- Parts of memories are many now: every few sentences are one. They are packed like the vectors of whole memories, in the
-- same blocks and at the same time.
alter table vector_blocks add column parts blob;

create trigger vector_blocks_opened after update of data on vector_blocks
when new.data is null and new.parts is not null begin
  update vector_blocks set parts = null where model = new.model and block = new.block and namespace = new.namespace;
end;
-- A process that runs since before this migration packs no parts: its blocks stay open.
create trigger vector_blocks_without_parts after update of data on vector_blocks
when new.data is not null and new.parts is null and exists (
  select 1 from part_vectors p cross join memories m on m.rid = p.rid
  where p.rid >= new.block << 10 and p.rid < (new.block + 1) << 10
    and p.model = new.model and m.namespace = new.namespace and m.deleted_at is null)
begin
  update vector_blocks set data = null where model = new.model and block = new.block and namespace = new.namespace;
end;

update vector_blocks set data = null where (model, block) in (select model, rid >> 10 from part_vectors);

-- What was said in several sentences has one vector of the bundled model so far: the next `reembed` makes those of its
-- parts.
insert or ignore into uncut(rid)
select v.rid from vectors v join models o on o.model = v.model join memories m on m.rid = v.rid
where o.name like 'local:%' and length(m.content) > 150 and v.rid not in (select rid from chunks);
