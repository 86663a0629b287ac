"""
The SQLite backend: one file, its indexes, its upkeep and its copies.

Decisions and their reasons:

- Full text over a view of live rows, one trigger with a condition. Forgetting and restoring keep the index true, and
  a rebuild never brings back what was forgotten.
- A stemmed index for words, an unstemmed one for prefixes. A stem is no prefix: `authenticat*` finds nothing in a
  stemmed index. It has no lists of prefixes (FTS5's `prefix=`): those of two and three letters were three fifths of
  it and a tenth of a bulk add. Without them, a search for `st*` takes 1.1 to 1.6 times as long.
- Unspaced scripts as pairs of characters in a column of their own. Two-character words are found, the index stays
  plain SQL that any SQLite tool can read, and what is removed from it is always what was put in.
- On SQLite, the two rarest words of each group are looked up at first. A word is looked up in every segment of the
  index, and a common one is walked through. Which words are common, the beginnings of 200 texts tell. Where many
  texts share the rare ones, all words count. On PostgreSQL all words count at once.
- Restore writes through SQLite's backup API. Whoever has the file open sees one database or the other, never half of
  one.
- Each connection has a page cache of 4 MiB. The system caches the file for all connections. Eight times as much saved
  3 to 6 % of a search, and took 60 MB more with two of them.
- Every commit increases a number in the header, drawn at random for each file; beside it stand 12 random bits and 12 of
  a digest of the number before, in `user_version` and half of `application_id`. A log holds them, too, so it is known
  whose it is: SQLite would write the log of a file that was moved away over the file that took its place.
- A process remembers the inode of the log that it has open. Whoever opens a file that was written over in place sets
  that log aside, and the process would go on writing to it.
"""
