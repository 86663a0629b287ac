"""
The store: everything a database does; the only package with SQL.

Decisions and their reasons:

- The keyword leg scores a pruned set of rows, not every match. FTS5 walks postings almost for free; scoring each row
  is what costs. Rows with a rare word, or a pair of commoner ones, are scored with all words; the rest only if those
  are too few. 99.6 % of the same ten best in a quarter of the time.
- The memories of a batch are inserted by one statement, from a table in memory; triggers stay the only way to the
  indexes. A statement whose triggers write is a savepoint, and FTS5 writes its segment at each. Row by row, that was
  two thirds of a bulk add; by one statement, the same triggers fire and nothing can disagree.
- A near duplicate is looked for by groups of words, all of one group. It lacks at most a fifth of the words, so of
  one group more than that, one is complete: a lookup that finds every near duplicate and scores nothing.
- Words are ranked by an inverted index in memory, made from the texts. A quarter of FTS5's time at 100,000 memories,
  and the same scores to the last bit, so nobody can tell which of the two answered. Places are kept for phrases and
  for coverage. It takes 1.3 times the size of the texts; where it would take more than 1.5 times, FTS5 answers.
- That index is made in a thread once searches have cost 0.1 s. Making it costs 40 µs a text. A process that answers
  one question never pays for it, a server has it after a dozen questions.
- New texts are followed by their rids, changed ones by `text_log`. Rids only grow, so adding memories in bulk writes
  no log at all.
- Packed blocks of 1,024 vectors, a change log. A new process reads 100,000 vectors in blocks; a running one follows
  other processes' writes without reading anything twice.
- A view of one project computes BM25 itself, with the project's own statistics. FTS5 knows only those of the whole
  index, and a score that moves with what others wrote spells it out, digit by digit.
- Keys that pass a filter are read once, handed to both legs, and kept until something is written, up to 30,000 of a
  filter. The filter is what a filtered search costs. What passes by the time, too, is listed anew. Facets then count
  what the keyword leg came across, and ask nothing again.
- A memory exists from the earlier of when it happened and when it was stored; a forgotten one stays forgotten.
  Imported history can be asked at any of its times, and no question about the past undoes a `forget`.
- Facts are a column of the full-text index. A memory is found by its facts with one index, one ranking and no join.
- The memories that superseded those of a page are found for all of them at once. Each memory of a chain would walk to
  its end: a page of a chain of 5,000 took seconds.
- The name of a recorded conversation is read from its first turn, and a summary that quotes a text is erased with it.
  What is derived and stored outlives what it was derived from.
- An erased turn leaves a tombstone: a digest of its id, keyed by a random salt of the namespace. A transcript is
  imported again at the end of every session, and would bring back what was erased. The id may be derived from the text,
  so a plain digest could be guessed. Of an erased session, the time of the erasure tells what was said before it.
"""
