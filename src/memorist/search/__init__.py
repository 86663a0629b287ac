"""
Search: `pipeline` from the parsed text to the page. Keys and columns of numbers in, scores and a trace out.

Decisions and their reasons:

- BM25 is weighted by coverage, the share of the query's words a memory has. Scaled by its best score alone, a chance
  match of one word counts as much as a perfect match. Coverage also makes `relevance` the same in a store of two
  memories and of a million.
- The coverage of a long text is that of words that stand together in it. A long text has every word by chance. On
  LongMemEval's turns, where answers are long and questions short, the keyword leg moved from .44 to .49 nDCG@10.
- A turn's score is smoothed over its neighbours in the session, short turns more than long ones; turns exchange
  places only among themselves. "It is make ship." is an answer only beside its question; notes are neither raised nor
  lowered.
- A neighbour is known by its position in the session. Keys follow the order of writing, and two sessions may be
  written at once.
- A reranker's score is blended, with a weight that falls with the share of a memory it read. It is right about whole
  turns and notes, and often wrong about abstracts of which it read a passage.
- Ranking reads a few columns of many rows, and the page its ten memories, with the filter in both reads. Facts,
  relations, sessions and texts of a hundred candidates are not made for ten hits. What changed in between is left
  out, whichever read meets it.
- A page is filled from further down only while the second half of a ranking still passes its thresholds. Score and
  relevance fall along it. On LoCoMo and Cranfield, 720 answers with thresholds lost 44 of 10,934 hits, none of them
  with the options of `context`, and took less than a third of the time.
- Every sentence or two of a memory have a vector of their own, beside that of the whole. One vector is mostly about
  the longest sentence, and a model reads 256 tokens, so a passing remark would be lost. A memory is as near as the
  nearest of its parts and the whole. Parts are in a scan of their own, so that a store of short notes pays nothing.
- Each leg counts the more, the further its best match stands out from its others. A leg that finds many memories
  alike cannot tell which of them answers, and the other leg often can.
- Among long texts the best three hits are added to the query. What resembles a page on a subject is another page on
  it. Among turns it is only more of the same small talk, so nothing is added there.
- Further passages of a document raise the score of its best one. A page about a subject mentions it more than once.
- Both legs run at once where the database finds the words: the keyword leg waits for it and the vector leg for the
  model, both outside the interpreter's lock. An image answers sooner than a thread would begin.
"""
