-- When a memory ends by itself. From then on nothing finds it; the next writes erase it.

alter table memories add column expires_at bigint;
create index memories_expiring on memories(tenant, namespace, expires_at) where expires_at is not null;
