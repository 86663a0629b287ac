-- How often each namespace was written to: whoever follows one is not told when others write.

create table namespace_changes (
  namespace text primary key,
  changes integer not null
) strict, without rowid;
