-- What was erased, so that no import of the same transcript brings it back. A digest of an id, keyed by a random salt,
-- tells neither the id nor the text. Imports from other databases bring salts of their own.

create table erased (
  erasure integer primary key autoincrement,
  namespace text not null,
  salt text not null,
  digest text not null,
  erased_at integer not null,
  unique (namespace, salt, digest)
) strict;
