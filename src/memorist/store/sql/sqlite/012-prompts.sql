-- By which surface a recall came, the tokens that it put into a prompt, and the text of each memory there. The text
-- belongs to the memory: it is gone when the memory is erased. Null: no prompt was written, or an older version did.

alter table recalls add column surface text;
alter table recalls add column tokens integer;
alter table recalled add column prompt text;
