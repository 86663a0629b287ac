"""Facts: single statements of memories, each with a confidence."""

import builtins
from datetime import UTC, datetime
from typing import Annotated, Unpack

from memorist import validation
from memorist.arguments import FactFields, MemoryId, Text
from memorist.contract import operation
from memorist.engine.room import Room
from memorist.records import Fact
from memorist.schemas import Meta
from memorist.search.signals import with_effective_confidence


class Facts(Room):
    """Attaches facts to memories, confirms and removes them."""

    _name = "facts"

    @operation("POST /memories/{id}/facts", status=201)
    def add(self, id: MemoryId, text: Text, **fields: Unpack[FactFields]) -> Fact:
        """Attach a fact to a memory, with its confidence. The memory is found by the words of its facts, too."""
        draft = self._resources.model_redaction.redact_fact(validation.fact({"text": text, **fields}))
        return self._present(self._store.strength.add_fact(validation.id_or_part(id), draft, datetime.now(UTC)))

    @operation("GET /memories/{id}/facts")
    def list(self, id: MemoryId) -> builtins.list[Fact]:
        """Return the facts of a memory, with their confidence now."""
        return [*self._resources.find_memory(id, None).facts]

    @operation("POST /facts/{id}/reinforce")
    def reinforce(
        self,
        id: str,
        amount: Annotated[float, Meta("The share of the way to 1 that confidence rises", minimum=0, maximum=1)] = 0.1,
    ) -> Fact:
        """Confirm a fact: its present confidence rises by a share of what is missing to 1."""
        share = validation.number(amount, "amount", 0, 1)
        rates = self._resources.profile.fact_decay
        fact = self._store.strength.reinforce_fact(validation.id_or_part(id), share, datetime.now(UTC), rates)
        return self._present(fact)

    @operation("DELETE /facts/{id}")
    def remove(self, id: str) -> Fact:
        """Remove a fact from its memory, with its history."""
        return self._present(self._store.strength.remove_fact(validation.id_or_part(id)))

    def _present(self, fact: Fact) -> Fact:
        return with_effective_confidence([fact], self._resources.profile.fact_decay, datetime.now(UTC))[0]
