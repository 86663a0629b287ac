"""Conversations: each one a session, each turn a memory."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from memorist import validation
from memorist.documents import ImportReport
from memorist.engine.resources import Resources
from memorist.errors import InvalidInput
from memorist.ingest.redaction import Redaction
from memorist.present.render import LINE_CHARACTERS
from memorist.records import ConversationBatch, Memory, new_id
from memorist.text.snippet import preview

CHAT = "chat"  # the format of conversations that are recorded while they go on


@dataclass(frozen=True, slots=True)
class ImportSettings:
    """Options of an import; `tools` is for conversations."""

    format: str | None
    project: str | None
    tools: bool
    redact: bool
    allow: Sequence[str]


class Conversations:
    """Records conversations turn by turn, and imports those of other programs."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources
        self._store = resources.store

    def import_file(
        self, path: str | Path, settings: ImportSettings, progress: Callable[[int], None] | None
    ) -> ImportReport:
        from memorist.importers.conversations import ImportCounter, ImportOptions, read_batches

        options = ImportOptions(
            settings.format,
            validation.name(settings.project, "project"),
            validation.flag(settings.tools, "tools"),
            self._redaction(settings.redact, settings.allow),
        )
        counter = ImportCounter()
        for batch in read_batches(validation.path(path), options, counter):
            result = self._store.add_conversations(batch)
            self._resources.embed(*result.pending)
            counter.add_result(batch, result)
            if progress:
                progress(counter.added + counter.known)
        return counter.build_report(settings.format)

    def add_turn(
        self,
        role: str,
        text: str,
        *,
        conversation: str,
        project: str | None,
        id: str | None,
        redact: bool,
        allow: Sequence[str],
    ) -> Memory:
        from memorist.importers.conversations import draft_turns, session_id_of
        from memorist.importers.transcripts import ImportedConversation, ImportProblem, Turn

        redaction, now = self._redaction(redact, allow), datetime.now(UTC)
        turn_id, role = new_id() if id is None else validation.memory_id(id), validation.required_name(role, "role")
        turns = (Turn(turn_id, role, validation.content(text, "text"), now),)
        name, project = validation.session_id(conversation), validation.name(project, "project")
        recorded = ImportedConversation(name, CHAT, None, project, now, now, turns)
        (draft,) = draft_turns(recorded, project=project, source=CHAT, default_time=now, redaction=redaction)
        if isinstance(draft, ImportProblem):
            raise InvalidInput(draft.reason)
        summary = preview(draft.content, LINE_CHARACTERS)
        batch = ConversationBatch(session_id_of(recorded), project, summary, (draft,))
        self._resources.embed(*self._store.add_conversations([batch]).pending)
        return self._resources.present(self._store.require(draft.id))

    def _redaction(self, redact: object, allow: object) -> Redaction:
        """Return the redaction of conversations, which is on unless the caller turns it off."""
        allowed = (*self._resources.redaction.allow, *validation.allowances(allow, "allow"))
        return Redaction(validation.flag(redact, "redact"), allowed)
