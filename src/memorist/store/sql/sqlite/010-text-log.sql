-- Which texts changed or went, in order: how an index of their words in memory keeps up without reading everything again.
-- New texts are known by their rids, which only grow, so that adding a memory costs nothing here.

create table text_log (
  seq integer primary key autoincrement,
  rid integer not null
) strict;

create trigger memories_log_text
after update of title, content, tags, source, segments, facts, deleted_at on memories begin
  insert into text_log(rid) values (new.rid);
end;
create trigger memories_log_removal after delete on memories begin
  insert into text_log(rid) values (old.rid);
end;
-- Whoever lags behind further reads everything again.
create trigger text_log_shorten after insert on text_log begin
  delete from text_log where seq = new.seq - 20000;
end;
