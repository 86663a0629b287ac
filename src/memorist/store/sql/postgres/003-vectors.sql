-- A vector of more than a thousand dimensions would be stored beside its row, and every comparison would fetch it from
-- there: vectors stay in their rows as long as these fit a page.
--
-- The approximate indexes are no migration: each is made when a namespace has vectors enough (store/postgres/vectors.py).

alter table vectors alter column vector set storage main;
alter table part_vectors alter column vector set storage main;
alter table old_vectors alter column vector set storage main;
