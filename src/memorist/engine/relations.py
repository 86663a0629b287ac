"""Statements about memories: supersession, links, facts, and how much a memory counts."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from memorist import validation
from memorist.engine.resources import Resources
from memorist.records import Fact, Memory, Relation
from memorist.search.signals import with_effective_confidence
from memorist.validation import TimeLike


class Relations:
    """Records statements about memories, each with its time."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources
        self._store = resources.store

    def supersede(self, old: str, new: str, at: TimeLike | None, said_by: str | None) -> Memory:
        old, new = validation.id_or_part(old), validation.id_or_part(new)
        moment, author = validation.moment_or_none(at, "at"), self._redact_author(said_by)
        return self._resources.present(self._store.links.supersede(old, new, moment, author, datetime.now(UTC)))

    def unsupersede(self, old: str) -> Memory:
        return self._resources.present(self._store.links.unsupersede(validation.id_or_part(old), datetime.now(UTC)))

    def replaced(self, id: str) -> list[Memory]:
        superseded = self._store.links.list_superseded(validation.id_or_part(id))
        return [self._resources.present(memory) for memory in superseded]

    def relate(self, a: str, b: str, kind: str, confidence: float, said_by: str | None) -> Relation:
        return self._store.links.relate(
            validation.id_or_part(a),
            validation.id_or_part(b),
            validation.relation_kind(kind),
            validation.number(confidence, "confidence", 0, 1),
            self._redact_author(said_by),
            datetime.now(UTC),
        )

    def unrelate(self, a: str, b: str, kind: str) -> None:
        kind = validation.relation_kind(kind)
        self._store.links.unrelate(validation.id_or_part(a), validation.id_or_part(b), kind, datetime.now(UTC))

    def add_fact(self, id: str, fields: Mapping[str, Any]) -> Fact:
        draft = self._resources.redaction.redact_fact(validation.fact(fields))
        return self._present_fact(self._store.strength.add_fact(validation.id_or_part(id), draft, datetime.now(UTC)))

    def remove_fact(self, id: str) -> Fact:
        return self._present_fact(self._store.strength.remove_fact(validation.id_or_part(id)))

    def reinforce_fact(self, id: str, amount: float) -> Fact:
        share = validation.number(amount, "amount", 0, 1)
        rates = self._resources.profile.fact_decay
        fact = self._store.strength.reinforce_fact(validation.id_or_part(id), share, datetime.now(UTC), rates)
        return self._present_fact(fact)

    def reinforce(self, id: str, amount: float, session: str | None) -> Memory:
        return self._change_strength(id, validation.number(amount, "amount", 0, 1), session)

    def deemphasize(self, id: str, amount: float) -> Memory:
        return self._change_strength(id, -validation.number(amount, "amount", 0, 1), None)

    def set_pin(self, id: str, pinned: bool) -> Memory:
        id = validation.id_or_part(id)
        return self._resources.present(self._store.strength.set_pinned(id, pinned, datetime.now(UTC)))

    def _redact_author(self, said_by: str | None) -> str | None:
        return self._resources.redaction.redact_optional(validation.name(said_by, "said_by"))

    def _change_strength(self, id: str, share: float, session: str | None) -> Memory:
        id, session = validation.id_or_part(id), None if session is None else validation.session_id(session)
        decay = self._resources.decay
        memory = self._store.strength.adjust_salience(id, share, datetime.now(UTC), decay, session)
        return self._resources.present(memory)

    def _present_fact(self, fact: Fact) -> Fact:
        return with_effective_confidence([fact], self._resources.profile.fact_decay, datetime.now(UTC))[0]
