-- What Citus needs of triggers and functions on tables that it distributes (store/postgres/citus.py).

-- The statistics follow the tokens, one statement at a time. What a statement has changed is read first and by itself: Citus
-- plans no statement that names a transition table and one of its own.

drop trigger memory_texts_inserted on memory_texts;
drop trigger memory_texts_deleted on memory_texts;
drop trigger memory_texts_updated on memory_texts;
drop function memory_texts_inserted();
drop function memory_texts_deleted();
drop function memory_texts_updated();

create function memory_texts_counted() returns trigger language plpgsql as $$
declare
  texts text := concat_ws(' union all ',
    case when tg_op <> 'DELETE' then 'select 1 as sign, n.* from new_texts n' end,
    case when tg_op <> 'INSERT' then 'select -1 as sign, o.* from old_texts o' end);
  changed record;
begin
  for changed in execute format($query$
    with texts as materialized (%s),
    words as (
      select t.tenant, t.namespace, kind.stemmed, term, sum(t.sign) as count
      from texts t
      cross join lateral (values (true, t.stems), (false, t.words)) kind(stemmed, tokens)
      cross join lateral unnest(tsvector_to_array(kind.tokens)) term
      group by 1, 2, 3, 4
      having sum(t.sign) <> 0),
    lists as (
      select tenant, namespace, array_agg(stemmed) as stemmed, array_agg(term) as terms, array_agg(count) as counts
      from words group by 1, 2),
    totals as (
      select tenant, namespace, sum(sign) as memories, sum(sign * length) as tokens, count(*) as changes
      from texts group by 1, 2)
    select * from totals left join lists using (tenant, namespace)
  $query$, texts) loop
    insert into vocabulary as v (tenant, namespace, stemmed, term, count)
      select changed.tenant, changed.namespace, w.stemmed, w.term, w.count
      from unnest(changed.stemmed, changed.terms, changed.counts) w(stemmed, term, count)
      on conflict (tenant, namespace, stemmed, term) do update set count = v.count + excluded.count;
    if tg_op <> 'INSERT' then
      delete from vocabulary v
        where v.tenant = changed.tenant and v.namespace = changed.namespace and v.stemmed in (true, false)
          and v.term = any(changed.terms) and v.count <= 0;
    end if;
    insert into text_statistics as s (tenant, namespace, memories, tokens, changes)
      values (changed.tenant, changed.namespace, changed.memories, changed.tokens, changed.changes)
      on conflict (tenant, namespace) do update
        set memories = s.memories + excluded.memories, tokens = s.tokens + excluded.tokens,
          changes = s.changes + excluded.changes;
  end loop;
  return null;
end $$;
create trigger memory_texts_inserted after insert on memory_texts referencing new table as new_texts
  for each statement execute function memory_texts_counted();
create trigger memory_texts_deleted after delete on memory_texts referencing old table as old_texts
  for each statement execute function memory_texts_counted();
create trigger memory_texts_updated after update on memory_texts
  referencing old table as old_texts new table as new_texts
  for each statement execute function memory_texts_counted();

-- As before, with the tenant as a value: of a setting, Citus does not know the node while it plans.

create or replace function scan_texts(namespace text, stemmed boolean, query tsquery, loose tsquery, tokens text[])
returns table(rid bigint, length integer, columns text, clipped boolean, found text)
language plpgsql stable security definer set plan_cache_mode = force_custom_plan rows 2000 as $$
#variable_conflict use_column
declare
  own text := current_setting('memorist.tenant', true);
begin
  if stemmed then
    return query
      select t.rid, t.length, t.columns, t.clipped, read_tokens(t.stems, tokens)
      from memory_texts t
      where t.tenant = own and t.namespace = scan_texts.namespace and t.stems @@ query;
  else
    return query
      select t.rid, t.length, t.columns, t.clipped, read_tokens(t.words, tokens)
      from memory_texts t
      where t.tenant = own and t.namespace = scan_texts.namespace and t.words @@ query;
  end if;
  if loose is not null then
    return query
      select t.rid, t.length, t.columns, t.clipped,
        read_tokens(case when stemmed then t.stems else t.words end, tokens)
      from memory_texts t
      where t.tenant = own and t.namespace = scan_texts.namespace and t.clipped
        and case when stemmed then t.stems @@ loose and not t.stems @@ query
            else t.words @@ loose and not t.words @@ query end;
  end if;
end $$;

create or replace function find_texts(namespace text, stemmed boolean, query tsquery, loose tsquery)
returns table(rid bigint)
language plpgsql stable security definer set plan_cache_mode = force_custom_plan rows 2000 as $$
#variable_conflict use_column
declare
  own text := current_setting('memorist.tenant', true);
begin
  if stemmed then
    return query
      select t.rid from memory_texts t
      where t.tenant = own and t.namespace = find_texts.namespace and t.stems @@ query;
  else
    return query
      select t.rid from memory_texts t
      where t.tenant = own and t.namespace = find_texts.namespace and t.words @@ query;
  end if;
  if loose is not null then
    return query
      select t.rid from memory_texts t
      where t.tenant = own and t.namespace = find_texts.namespace and t.clipped
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
end $$;
