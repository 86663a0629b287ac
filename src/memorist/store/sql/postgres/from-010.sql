-- From the last schema of before the first release, made by 10 migrations, to that of 001-schema.sql: the same one.

delete from _migrations;  -- that of 001-schema.sql takes the place of all
