"""Conversations with other programs: each one a session, each turn a memory."""

from collections.abc import Callable, Sequence
from pathlib import Path

from recollect import inputs
from recollect.documents import ImportReport
from recollect.engine.core import Core
from recollect.ingest.redaction import Redaction


class Conversing(Core):
    """Takes in what was said elsewhere."""

    def import_conversations(
        self,
        path: str | Path,
        *,
        format: str | None = None,
        project: str | None = None,
        tools: bool = False,
        redact: bool = True,
        allow: Sequence[str] = (),
        progress: Callable[[int], None] | None = None,
    ) -> ImportReport:
        """
        Take in a file of conversations, or every such file of a folder: sessions of Claude Code, exports of ChatGPT and
        Claude.ai, lists of messages, JSONL. Each conversation becomes a session, each turn a memory; what is there
        already, or was forgotten, stays as it is.

        The calls and results of tools are left out unless `tools`. Secrets are replaced by a mark before anything is
        stored, unless `redact` is False; `allow` names what is none. `progress` is told how many turns are done.
        """
        from recollect.ingest.conversations import Tally, Way, batches

        allowed = (*self._redaction.allow, *inputs.allowances(allow, "allow"))
        way = Way(
            format,
            inputs.name(project, "project"),
            inputs.flag(tools, "tools"),
            Redaction(inputs.flag(redact, "redact"), allowed),
        )
        tally = Tally()
        for batch in batches(inputs.path(path), way, tally):
            taken = self._store.take(batch)
            self._give_vectors(taken.pending)
            tally.count(batch, taken)
            if progress:
                progress(tally.added + tally.known)
        return tally.report(format)
