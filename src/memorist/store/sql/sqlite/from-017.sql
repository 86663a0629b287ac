-- From the last schema of before the first release, made by 17 migrations, to that of 001-schema.sql.
-- What this leaves differs from a new database in nothing but how its statements are laid out.

delete from _migrations;  -- that of 001-schema.sql takes the place of all

-- For processes of an older version, which packed no parts.
drop trigger if exists vector_blocks_without_parts;

-- One trigger for what follows a vector, not two.
drop trigger if exists vectors_parts_update;
drop trigger if exists vectors_parts_delete;
drop trigger if exists vectors_log_update;
drop trigger if exists vectors_log_delete;
create trigger vectors_log_update after update on vectors begin
  delete from unembedded where rid = new.rid;
  delete from uncut where rid = new.rid;
  delete from part_vectors where rid = old.rid and model = old.model;
  insert into vector_log(rid) values (new.rid);
  update vector_blocks set data = null where model = new.model and block = new.rid >> 10 and data is not null;
end;
create trigger vectors_log_delete after delete on vectors begin
  delete from part_vectors where rid = old.rid and model = old.model;
  insert into vector_log(rid) values (old.rid);
  update vector_blocks set data = null where model = old.model and block = old.rid >> 10 and data is not null;
end;
