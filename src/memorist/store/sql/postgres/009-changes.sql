-- How often each namespace was written to: whoever follows one is not told when others write.

create table namespace_changes (
  tenant text collate "C" not null default current_setting('memorist.tenant'),
  namespace text collate "C" not null,
  changes bigint not null,
  primary key (tenant, namespace)
) with (fillfactor = 50);
