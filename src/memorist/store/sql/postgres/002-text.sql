-- Full text: the tokens of the live memories, and how common each of them is.
--
-- A tsvector is a container here, of tokens that our own tokenizer has made, with their positions: neither a parser nor a
-- ranking of PostgreSQL takes part. `stems` are for words, `words` for beginnings of words (a stem is no beginning).
--
-- The operator @@ is not leakproof: where row security adds a condition, no index serves it. So rows are found by the
-- functions below, which run as the owner of the table and name the tenant themselves. For the owner, row security is not
-- forced on this one table: it holds for the application's role.

do $$
begin
  -- Lets an index of texts begin with a namespace, so that a search reads the postings of one.
  create extension if not exists btree_gin;
exception
  when feature_not_supported or undefined_file or insufficient_privilege then
    raise notice 'the extension btree_gin is not to be had: full-text search is slower with many namespaces';
end $$;

create table memory_texts (
  tenant text collate "C" not null default current_setting('memorist.tenant'),
  rid bigint not null,
  namespace text collate "C" not null,
  stems tsvector not null,
  words tsvector not null,
  length integer not null,  -- tokens
  columns text collate "C" not null,  -- the first position of each column, as number:position,...
  clipped boolean not null,  -- whether there were too many positions for a tsvector
  primary key (tenant, rid),
  foreign key (tenant, rid) references memories(tenant, rid) on delete cascade
);
create index memory_texts_by_key on memory_texts(tenant, namespace, rid);
create index memory_texts_clipped on memory_texts(tenant, namespace, rid) where clipped;
-- A search reads the stems of a thousand rows: they stay in the row, and as they are.
alter table memory_texts alter column stems set storage main;
alter table memory_texts enable row level security;
create policy tenant_only on memory_texts
  using (tenant = current_setting('memorist.tenant', true))
  with check (tenant = current_setting('memorist.tenant', true));

do $$
declare
  before text := case when exists (select 1 from pg_extension where extname = 'btree_gin')
    then 'namespace, ' else '' end;
  kind text;
begin
  -- A namespace belongs to one tenant, and one more column would make each search take twice as long.
  -- Every search reads the list of entries that are still to be merged, and each merge takes a while: it is kept short.
  foreach kind in array array['stems', 'words'] loop
    execute format(
      'create index memory_texts_%s on memory_texts using gin(%s %s) with (gin_pending_list_limit = 512)',
      kind, before, kind);
  end loop;
end $$;

-- The number of live memories with each token.
create table vocabulary (
  tenant text collate "C" not null default current_setting('memorist.tenant'),
  namespace text collate "C" not null,
  stemmed boolean not null,
  term text collate "C" not null,
  count bigint not null,
  primary key (tenant, namespace, stemmed, term)
) with (fillfactor = 80);

create table text_statistics (
  tenant text collate "C" not null default current_setting('memorist.tenant'),
  namespace text collate "C" not null,
  memories bigint not null,
  tokens bigint not null,
  changes bigint not null,  -- rows that came, changed or went so far
  primary key (tenant, namespace)
) with (fillfactor = 50);

-- Memories whose tokens are not those of their text. Whoever writes empties it before the end of the transaction.
create table unindexed (
  tenant text collate "C" not null default current_setting('memorist.tenant'),
  rid bigint not null,
  primary key (tenant, rid),
  foreign key (tenant, rid) references memories(tenant, rid) on delete cascade
);

create function memories_queued() returns trigger language plpgsql as $$
begin
  if new.deleted_at is null then
    insert into unindexed(tenant, rid) values (new.tenant, new.rid) on conflict do nothing;
  else
    delete from memory_texts where tenant = new.tenant and rid = new.rid;
    delete from unindexed where tenant = new.tenant and rid = new.rid;
  end if;
  return null;
end $$;
create trigger memories_queued after insert on memories for each row
  when (new.deleted_at is null) execute function memories_queued();
create trigger memories_requeued
  after update of namespace, title, content, tags, source, segments, facts, deleted_at on memories for each row
  when ((old.namespace, old.title, old.content, old.tags, old.source, old.segments, old.facts, old.deleted_at is null)
    is distinct from
    (new.namespace, new.title, new.content, new.tags, new.source, new.segments, new.facts, new.deleted_at is null))
  execute function memories_queued();

-- The statistics follow the tokens, one statement at a time.

create function memory_texts_inserted() returns trigger language plpgsql as $$
begin
  insert into vocabulary as v (tenant, namespace, stemmed, term, count)
    select n.tenant, n.namespace, kind.stemmed, term, count(*)
    from new_texts n
    cross join lateral (values (true, n.stems), (false, n.words)) kind(stemmed, tokens)
    cross join lateral unnest(tsvector_to_array(kind.tokens)) term
    group by 1, 2, 3, 4
    on conflict (tenant, namespace, stemmed, term) do update set count = v.count + excluded.count;
  insert into text_statistics as s (tenant, namespace, memories, tokens, changes)
    select tenant, namespace, count(*), sum(length), count(*) from new_texts group by 1, 2
    on conflict (tenant, namespace) do update
      set memories = s.memories + excluded.memories, tokens = s.tokens + excluded.tokens,
        changes = s.changes + excluded.changes;
  return null;
end $$;
create trigger memory_texts_inserted after insert on memory_texts referencing new table as new_texts
  for each statement execute function memory_texts_inserted();

create function memory_texts_deleted() returns trigger language plpgsql as $$
begin
  with gone as (
    select o.tenant, o.namespace, kind.stemmed, term, count(*) as count
    from old_texts o
    cross join lateral (values (true, o.stems), (false, o.words)) kind(stemmed, tokens)
    cross join lateral unnest(tsvector_to_array(kind.tokens)) term
    group by 1, 2, 3, 4),
  emptied as (
    delete from vocabulary v using gone g
    where (v.tenant, v.namespace, v.stemmed, v.term) = (g.tenant, g.namespace, g.stemmed, g.term) and v.count <= g.count)
  update vocabulary v set count = v.count - g.count from gone g
    where (v.tenant, v.namespace, v.stemmed, v.term) = (g.tenant, g.namespace, g.stemmed, g.term) and v.count > g.count;
  update text_statistics s
    set memories = s.memories - o.memories, tokens = s.tokens - o.tokens, changes = s.changes + o.memories
    from (select tenant, namespace, count(*) as memories, sum(length) as tokens from old_texts group by 1, 2) o
    where s.tenant = o.tenant and s.namespace = o.namespace;
  return null;
end $$;
create trigger memory_texts_deleted after delete on memory_texts referencing old table as old_texts
  for each statement execute function memory_texts_deleted();

create function memory_texts_updated() returns trigger language plpgsql as $$
begin
  with changed as (
    select c.tenant, c.namespace, c.stemmed, c.term, sum(c.change) as change
    from (
      select n.tenant, n.namespace, true as stemmed, unnest(tsvector_to_array(n.stems)) as term, 1 as change from new_texts n
      union all
      select n.tenant, n.namespace, false, unnest(tsvector_to_array(n.words)), 1 from new_texts n
      union all
      select o.tenant, o.namespace, true, unnest(tsvector_to_array(o.stems)), -1 from old_texts o
      union all
      select o.tenant, o.namespace, false, unnest(tsvector_to_array(o.words)), -1 from old_texts o) c
    group by 1, 2, 3, 4
    having sum(c.change) <> 0),
  emptied as (
    delete from vocabulary v using changed c
    where (v.tenant, v.namespace, v.stemmed, v.term) = (c.tenant, c.namespace, c.stemmed, c.term)
      and v.count + c.change <= 0),
  counted as (
    update vocabulary v set count = v.count + c.change from changed c
    where (v.tenant, v.namespace, v.stemmed, v.term) = (c.tenant, c.namespace, c.stemmed, c.term)
      and v.count + c.change > 0
    returning v.tenant, v.namespace, v.stemmed, v.term)
  insert into vocabulary as v (tenant, namespace, stemmed, term, count)
    select tenant, namespace, stemmed, term, change from changed c
    where c.change > 0 and not exists (
      select 1 from counted k
      where (k.tenant, k.namespace, k.stemmed, k.term) = (c.tenant, c.namespace, c.stemmed, c.term));
  insert into text_statistics as s (tenant, namespace, memories, tokens, changes)
    select tenant, namespace, sum(memories), sum(tokens), count(*)
    from (
      select tenant, namespace, 1 as memories, length as tokens from new_texts
      union all
      select tenant, namespace, -1, -length from old_texts) c
    group by 1, 2
    on conflict (tenant, namespace) do update
      set memories = s.memories + excluded.memories, tokens = s.tokens + excluded.tokens,
        changes = s.changes + excluded.changes;
  return null;
end $$;
create trigger memory_texts_updated after update on memory_texts
  referencing old table as old_texts new table as new_texts
  for each statement execute function memory_texts_updated();

-- Return some tokens of a text with their positions, or all. Marking them and leaving out the rest is twenty times as fast
-- as taking the text apart.
create function read_tokens(vector tsvector, tokens text[]) returns text language sql immutable parallel safe
return case
  when tokens is null then setweight(vector, 'A')::text
  else ts_filter(setweight(vector, 'A', tokens), '{a}')::text
end;

-- Return the rows that match a query, and of each the positions of some tokens. Of a row that had too many positions, those
-- of a phrase may be missing: `loose` is the query without their order.
create function scan_texts(namespace text, stemmed boolean, query tsquery, loose tsquery, tokens text[])
returns table(rid bigint, length integer, columns text, clipped boolean, found text)
language plpgsql stable security definer set plan_cache_mode = force_custom_plan rows 2000 as $$
#variable_conflict use_column
begin
  if stemmed then
    return query
      select t.rid, t.length, t.columns, t.clipped, read_tokens(t.stems, tokens)
      from memory_texts t
      where t.tenant = current_setting('memorist.tenant', true) and t.namespace = scan_texts.namespace and t.stems @@ query;
  else
    return query
      select t.rid, t.length, t.columns, t.clipped, read_tokens(t.words, tokens)
      from memory_texts t
      where t.tenant = current_setting('memorist.tenant', true) and t.namespace = scan_texts.namespace and t.words @@ query;
  end if;
  if loose is not null then
    return query
      select t.rid, t.length, t.columns, t.clipped,
        read_tokens(case when stemmed then t.stems else t.words end, tokens)
      from memory_texts t
      where t.tenant = current_setting('memorist.tenant', true) and t.namespace = scan_texts.namespace and t.clipped
        and case when stemmed then t.stems @@ loose and not t.stems @@ query
            else t.words @@ loose and not t.words @@ query end;
  end if;
end $$;

-- Return the keys of the rows that match a query.
create function find_texts(namespace text, stemmed boolean, query tsquery, loose tsquery)
returns table(rid bigint)
language plpgsql stable security definer set plan_cache_mode = force_custom_plan rows 2000 as $$
#variable_conflict use_column
begin
  if stemmed then
    return query
      select t.rid from memory_texts t
      where t.tenant = current_setting('memorist.tenant', true) and t.namespace = find_texts.namespace and t.stems @@ query;
  else
    return query
      select t.rid from memory_texts t
      where t.tenant = current_setting('memorist.tenant', true) and t.namespace = find_texts.namespace and t.words @@ query;
  end if;
  if loose is not null then
    return query
      select t.rid from memory_texts t
      where t.tenant = current_setting('memorist.tenant', true) and t.namespace = find_texts.namespace and t.clipped
        and case when stemmed then t.stems @@ loose and not t.stems @@ query
            else t.words @@ loose and not t.words @@ query end;
  end if;
end $$;

do $$
declare
  name text;
begin
  foreach name in array array['scan_texts', 'find_texts'] loop
    execute format('alter function %I set search_path = %I, pg_temp', name, current_schema());
  end loop;
  if exists (select 1 from pg_roles where rolname = 'memorist_app') then
    grant select, insert, update, delete on memory_texts to memorist_app;
  end if;
end $$;
