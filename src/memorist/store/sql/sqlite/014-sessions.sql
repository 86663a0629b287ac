-- A session can be forgotten with the memories that were made in it, and restored with them.

alter table sessions add column deleted_at integer;
