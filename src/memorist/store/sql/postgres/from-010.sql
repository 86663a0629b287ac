-- From the last schema of before the first release, made by 10 migrations, to that of 001-schema.sql.

delete from _migrations;  -- that of 001-schema.sql takes the place of all

-- The log of changes; see 001-schema.sql.

create table changes (
  tenant text collate "C" not null default current_setting('memorist.tenant'),
  seq bigint not null,
  rid bigint not null,
  what integer not null,  -- a sum: 1 any column, 2 its text, or if it is live, 4 its vector, or if it is live
  primary key (tenant, seq)
);

-- Whoever lags behind by more than 20,000 changes reads everything again; the log is shortened once in a while.
create function log_change(tenant text, rid bigint, what integer) returns void language plpgsql as $$
#variable_conflict use_column
declare
  number bigint := 1 + coalesce((select max(c.seq) from changes c where c.tenant = log_change.tenant), 0);
begin
  insert into changes(tenant, seq, rid, what) values (log_change.tenant, number, log_change.rid, log_change.what);
  if number % 1000 = 0 then
    delete from changes c where c.tenant = log_change.tenant and c.seq <= number - 20000;
  end if;
end $$;

create function row_logged() returns trigger language plpgsql as $$
begin
  perform log_change(coalesce(new.tenant, old.tenant), coalesce(new.rid, old.rid), tg_argv[0]::integer);
  return null;
end $$;
create trigger memories_changed after update on memories for each row
  when ((old.deleted_at is null) = (new.deleted_at is null)
    and (old.content, old.title, old.tags, old.source, old.segments, old.facts)
      is not distinct from (new.content, new.title, new.tags, new.source, new.segments, new.facts))
  execute function row_logged(1);
create trigger memories_rewritten after update on memories for each row
  when ((old.deleted_at is null) = (new.deleted_at is null)
    and (old.content, old.title, old.tags, old.source, old.segments, old.facts)
      is distinct from (new.content, new.title, new.tags, new.source, new.segments, new.facts))
  execute function row_logged(3);
create trigger memories_hidden after update on memories for each row
  when ((old.deleted_at is null) <> (new.deleted_at is null)) execute function row_logged(7);
create trigger memories_gone after delete on memories for each row execute function row_logged(7);
create trigger vectors_changed after insert or update or delete on vectors for each row execute function row_logged(4);

-- The session that a memory was made in, and its place there, count as columns of it.
create trigger session_memories_made after insert or update on session_memories for each row
  when (new.usage = 'created') execute function row_logged(1);
create trigger session_memories_gone after delete on session_memories for each row
  when (old.usage = 'created') execute function row_logged(1);

create function sessions_hidden() returns trigger language plpgsql as $$
declare
  made bigint;
begin
  for made in
    select rid from session_memories where tenant = new.tenant and sid = new.sid and usage = 'created' order by rid
  loop
    perform log_change(new.tenant, made, 1);
  end loop;
  return null;
end $$;
create trigger sessions_hidden after update of deleted_at on sessions for each row execute function sessions_hidden();

-- Marks are a part of words by now: texts that may have some are cut into words again, when the namespace is opened.
insert into unindexed(tenant, rid)
  select m.tenant, m.rid from memories m
  where m.deleted_at is null and octet_length(concat_ws('', m.title, m.content, m.tags, m.facts))
    <> char_length(concat_ws('', m.title, m.content, m.tags, m.facts))
  on conflict do nothing;
