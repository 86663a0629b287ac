"""Links: relations between memories that somebody stated."""

import builtins
from datetime import UTC, datetime
from typing import Annotated

from memorist import validation
from memorist.arguments import MemoryId
from memorist.contract import operation
from memorist.engine.linking import redact_author
from memorist.engine.room import Room
from memorist.records import Memory, Relation
from memorist.schemas import Meta


class Links(Room):
    """Links memories with each other."""

    _name = "links"

    @operation("POST /memories/{source}/relations")
    def add(
        self,
        source: MemoryId,
        target: MemoryId,
        kind: str,
        *,
        confidence: Annotated[float, Meta("How certain that is", minimum=0, maximum=1)] = 1.0,
        said_by: Annotated[str | None, Meta("Who says so")] = None,
    ) -> Relation:
        """Link two memories: `source` `kind` `target`. Linking them again sets the confidence anew."""
        return self._store.links.relate(
            validation.id_or_part(source),
            validation.id_or_part(target),
            validation.relation_kind(kind),
            validation.number(confidence, "confidence", 0, 1),
            redact_author(self._resources, said_by),
            datetime.now(UTC),
        )

    @operation("DELETE /memories/{source}/relations")
    def remove(self, source: MemoryId, target: MemoryId, kind: str) -> None:
        """Remove a link, from now on."""
        kind = validation.relation_kind(kind)
        ids = validation.id_or_part(source), validation.id_or_part(target)
        self._store.links.unrelate(*ids, kind, datetime.now(UTC))

    @operation("GET /memories/{id}/replaced")
    def replaced(self, id: MemoryId) -> builtins.list[Memory]:
        """Return the memories that one has superseded, the earliest first."""
        superseded = self._store.links.list_superseded(validation.id_or_part(id))
        return [self._resources.present(memory) for memory in superseded]
