-- What people said of answers: whether a memory was a good one to a question. The latest word on both counts.

create table feedback (
  feedback integer primary key autoincrement,
  rid integer not null references memories(rid) on delete cascade,
  query text not null check (length(query) > 0),
  good integer not null check (good in (0, 1)),
  at integer not null,
  unique (rid, query)
) strict;
create index feedback_by_question on feedback(query);
