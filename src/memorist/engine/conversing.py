"""Conversations: each one a session, each turn a memory."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from memorist import validation
from memorist.documents import ImportReport
from memorist.engine.core import Core
from memorist.errors import InvalidInput
from memorist.ingest.redaction import Redaction
from memorist.present.render import LINE
from memorist.records import ConversationBatch, Memory, new_id
from memorist.text.snippet import preview

CHAT = "chat"  # the format of conversations that are remembered while they go on


class Conversing(Core):
    """Takes in what was said."""

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
        from memorist.importers.conversations import ImportCounter, ImportOptions, batches

        way = ImportOptions(
            format,
            validation.name(project, "project"),
            validation.flag(tools, "tools"),
            self._of_conversations(redact, allow),
        )
        tally = ImportCounter()
        for batch in batches(validation.path(path), way, tally):
            taken = self._store.add_conversations(batch)
            self._give_vectors(taken.pending)
            tally.count(batch, taken)
            if progress:
                progress(tally.added + tally.known)
        return tally.report(format)

    def add_turn(
        self,
        role: str,
        text: str,
        *,
        conversation: str,
        project: str | None = None,
        id: str | None = None,
        redact: bool = True,
        allow: Sequence[str] = (),
    ) -> Memory:
        """
        Remember a turn of a conversation while it goes on, as an imported one: the session `chat:CONVERSATION` begins
        with its first turn, is named after it, and reaches to its last. A turn with an `id` is taken once.

        Secrets are replaced by a mark before anything is stored, unless `redact` is False; `allow` names what is none.
        """
        from memorist.importers.conversations import drafts, session_of
        from memorist.importers.transcripts import ImportedConversation, Problem, Turn

        redaction, now = self._of_conversations(redact, allow), datetime.now(UTC)
        own_id, role = new_id() if id is None else validation.memory_id(id), validation.required_name(role, "role")
        turns = (Turn(own_id, role, validation.content(text, "text"), now),)
        name, project = validation.session_id(conversation), validation.name(project, "project")
        said = ImportedConversation(name, CHAT, None, project, now, now, turns)
        (draft,) = drafts(said, project=project, source=CHAT, otherwise=now, redaction=redaction)
        if isinstance(draft, Problem):
            raise InvalidInput(draft.reason)
        told = ConversationBatch(session_of(said), project, preview(draft.content, LINE), (draft,))
        self._give_vectors(self._store.add_conversations([told]).pending)
        return self._shown(self._store.require(draft.id))

    def _of_conversations(self, redact: object, allow: object) -> Redaction:
        """What is done about secrets in what was said: they are taken out unless told otherwise."""
        return Redaction(
            validation.flag(redact, "redact"), (*self._redaction.allow, *validation.allowances(allow, "allow"))
        )
