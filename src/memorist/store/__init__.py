"""
The store: everything a database does; the only package with SQL.

Decisions and their reasons:

- The keyword leg scores a pruned set of rows, not every match. FTS5 walks postings almost for free; scoring each row
  is what costs. Rows with a rare word, or a pair of commoner ones, are scored with all words; the rest only if those
  are too few. 99.6 % of the same ten best in a quarter of the time.
- The memories of a batch are inserted by one statement, from a table in memory; triggers stay the only way to the
  indexes. A statement whose triggers write is a savepoint, and FTS5 writes its segment at each. Row by row, that was
  two thirds of a bulk add; by one statement, the same triggers fire and nothing can disagree.
- What threads of a process add at once shares one transaction. A commit waits for the disk, and each thread would have
  all others wait for its own. They are written as a batch is; if one of them is refused, each is written by itself.
- A near duplicate is looked for by groups of words, all of one group. It lacks at most a fifth of the words, so of
  one group more than that, one is complete: a lookup that finds every near duplicate and scores nothing.
- A namespace that is searched often has an image in memory: what filters and ranking look at, as arrays, and an
  inverted index of the words. A search of it reads nothing but the memories of its page. The image gives the same
  matches and scores as the database, to the last bit, so nobody can tell which of the two answered. Where it would
  take more than is granted, the database answers.
- An image is made in a thread once searches have cost 0.1 s. Making it costs some 60 µs a text. A process that answers
  one question never pays for it, a server has it after a dozen questions.
- One log of changes is followed by the image and by the scan of vectors. New memories are known by their rids, which
  only grow, so adding them in bulk writes nothing to it but their vectors.
- A similarity is that of two int8 codes, wherever it is computed: in memory, or of vectors that were read. Ranking by
  exact vectors as well moved nDCG@10 by .001 at most, and took a quarter of the time of a search to read them. Vectors
  of few dimensions are not rounded.
- Packed blocks of 1,024 vectors. A new process reads 100,000 vectors in blocks.
- A view of one project computes BM25 itself, with the project's own statistics. FTS5 knows only those of the whole
  index, and a score that moves with what others wrote spells it out, digit by digit.
- What passes a filter is found once for both legs, and kept with the image, that is until something is written. What
  passes by the time, too, is found anew. Without an image, few keys are listed and handed to both legs.
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
