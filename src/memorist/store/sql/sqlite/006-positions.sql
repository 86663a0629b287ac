-- The place of a memory among those created in its session: neighbours there are known by it, whoever else writes.
-- It follows the order of writing, so an import makes it anew; an erased memory leaves a gap.

alter table session_memories add column position integer;

update session_memories
set position = numbered.position
from (
  select rid, sid, row_number() over (partition by sid order by rid) as position
  from session_memories
  where usage = 'created') numbered
where session_memories.rid = numbered.rid and session_memories.sid = numbered.sid and usage = 'created';

create index session_memories_by_position on session_memories(sid, position) where position is not null;

-- A process of the version before may still be at work while this runs.
create trigger session_memories_position after insert on session_memories
when new.usage = 'created' and new.position is null begin
  update session_memories
  set position = 1 + coalesce(
    (select max(position) from session_memories where sid = new.sid and position is not null), 0)
  where rid = new.rid and sid = new.sid and usage = 'created';
end;
