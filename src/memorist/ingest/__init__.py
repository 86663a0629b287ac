"""
Ingest: files and texts on their way into the store.

Decisions and their reasons:

- The vector of a text is waited for only if the model was quick lately, and only a moment. One commit instead of two,
  and still no text that is lost or late because of a model.
- Recalls are written by a thread, after the answer. A record may be late or lost, a search may not.
- The log of recalls is trimmed by who writes to it, by age each time and by size after every 64th. Hooks are a
  process each, so nobody else is there to do it; measuring the size reads the whole log.
- Chunks are cut by a document's structure, and identified by heading and text. A fence, table or list item stays
  whole where it can, and an edit embeds only what it changed.
- A file is redacted whole, before it is cut; memories before they are hashed, compared or embedded. A key may be
  longer than a chunk. What is never written need not be erased from any index, log or history.
- A walk says which paths it covers, and only those are removed; a burst of changes is followed by indexing again. A
  file named alone, a glob or an unreadable folder removes nothing else. One way in, so ignore rules, renames and
  restarts need no second logic.
"""
