"""
The PostgreSQL backend: connections, schema, the keyword leg and vectors.

Decisions and their reasons:

- On PostgreSQL, `tenant` leads every key, and row-level security adds it to every statement. Shared SQL stays that of
  one namespace, a forgotten condition leaks nothing, and tables can be distributed by it.
- On PostgreSQL, writers of a namespace take a lock first. What reads and then writes is right on both databases, no
  caller meets a deadlock, and readers never wait.
- On PostgreSQL, tokens are those of our tokenizer, kept in `tsvector` columns, and BM25 is computed here. The same
  query finds the same memories in the same order on both; PostgreSQL's own parser and ranking take no part.
- On PostgreSQL, vectors are compared exactly until a namespace has 20,000, then by an HNSW index of its own. A small
  namespace costs nothing, and a large one does not search past the vectors of others.
"""
