-- The name other tools search by: `select id from observations_fts where observations_fts match ? order by rank`.
-- A view that hands on the hidden columns of the full-text index can be searched like the index, and stores nothing.

drop view observations_fts;
create view observations_fts as
  select m.id, f.content, f.memories_stems as observations_fts, f.rank
  from memories_stems f
  join memories m on m.rid = f.rowid;
