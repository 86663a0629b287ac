-- An index of fields of metadata, for filters by them. The fields are named by their paths, as JSON lists of keys.
-- A list stands for its items, to one level, as in filters.

create table indexed_fields (
  field integer primary key autoincrement,
  namespace text not null,
  path text not null check (json_valid(path)),
  unique (namespace, path)
) strict;

-- Long texts are cut, and numbers are rounded: the index narrows a filter down, and the metadata decide.
create table memory_fields (
  field integer not null references indexed_fields(field) on delete cascade,
  kind text not null,
  text text not null,  -- '' unless the kind is text
  number real not null,  -- 0 unless it is a number
  rid integer not null references memories(rid) on delete cascade,
  primary key (field, kind, text, number, rid)
) strict, without rowid;
create index memory_fields_by_memory on memory_fields(rid);

-- What is at the path of each field, before lists are taken apart.
create view field_nodes as
  select i.field, m.rid, a.type, a.value, a.atom
  from indexed_fields i
  cross join memories m on m.namespace = i.namespace
  cross join json_each(iif(json_valid(m.metadata), m.metadata, '{}')) a
  where json_array_length(i.path) = 1 and a.key = i.path ->> 0
  union all
  select i.field, m.rid, b.type, b.value, b.atom
  from indexed_fields i
  cross join memories m on m.namespace = i.namespace
  cross join json_each(iif(json_valid(m.metadata), m.metadata, '{}')) a
  cross join json_each(
    case a.type when 'array' then a.value when 'object' then json_array(json(a.value)) else '[]' end) item
  cross join json_each(iif(item.type = 'object', item.value, '{}')) b
  where json_array_length(i.path) = 2 and a.key = i.path ->> 0 and b.key = i.path ->> 1
  union all
  select i.field, m.rid, c.type, c.value, c.atom
  from indexed_fields i
  cross join memories m on m.namespace = i.namespace
  cross join json_each(iif(json_valid(m.metadata), m.metadata, '{}')) a
  cross join json_each(
    case a.type when 'array' then a.value when 'object' then json_array(json(a.value)) else '[]' end) item
  cross join json_each(iif(item.type = 'object', item.value, '{}')) b
  cross join json_each(
    case b.type when 'array' then b.value when 'object' then json_array(json(b.value)) else '[]' end) part
  cross join json_each(iif(part.type = 'object', part.value, '{}')) c
  where json_array_length(i.path) = 3 and a.key = i.path ->> 0 and b.key = i.path ->> 1 and c.key = i.path ->> 2;

-- The rows that `memory_fields` has to have.
create view field_values as
  select field,
    iif(type in ('integer', 'real'), 'number', type) as kind,
    iif(type = 'text', substr(atom, 1, 200), '') as text,
    iif(type in ('integer', 'real'), atom, 0) + 0.0 as number,
    rid
  from (
    select field, rid, type, atom from field_nodes
    union all
    select n.field, n.rid, v.type, v.atom
    from field_nodes n
    cross join json_each(iif(n.type = 'array', n.value, '[]')) v);

create trigger memories_fields_insert after insert on memories
when new.metadata <> '{}' and exists (select 1 from indexed_fields where namespace = new.namespace) begin
  insert or ignore into memory_fields(field, kind, text, number, rid)
    select field, kind, text, number, rid from field_values where rid = new.rid;
end;
create trigger memories_fields_update after update of metadata on memories begin
  delete from memory_fields where rid = old.rid;
  insert or ignore into memory_fields(field, kind, text, number, rid)
    select field, kind, text, number, rid from field_values where rid = new.rid;
end;
