"""What memories live through: sessions, supersession, relations, facts, reinforcement, lenses."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from memorist import validation
from memorist.engine.core import Core, Moment, given_id
from memorist.errors import InvalidInput, NotFound
from memorist.records import Fact, Feedback, Lens, Memory, Recall, Relation, Session, SessionContext, new_id
from memorist.search import options
from memorist.search.signals import certain

BOOSTED = ("sector", "kind", "tag", "source")


class Living(Core):
    """Everything that is said about memories, other than what they say."""

    # Sessions

    def start_session(
        self, project: str | None = None, *, id: str | None = None, summary: str | None = None
    ) -> Session:
        """Begin a session; its id is given to `add(session=...)` and `search(record_session=...)`."""
        return self._store.sessions.start(
            new_id() if id is None else validation.session_id(id),
            validation.name(project, "project"),
            self._summary(summary),
            datetime.now(UTC),
        )

    def end_session(self, id: str, summary: str | None = None) -> Session:
        """End a session; nothing can be added to it any more."""
        self._recorder.flush()  # what was recalled in it belongs to it
        return self._store.sessions.end(validation.session_id(id), self._summary(summary), datetime.now(UTC))

    def summarise_session(self, id: str, summary: str | None) -> Session:
        """Say what a session was about; also after it has ended."""
        return self._store.sessions.set_summary(validation.session_id(id), self._summary(summary))

    def session(self, id: str) -> Session:
        """One session, by its id or a unique part of it."""
        self._recorder.settle()
        return self._store.sessions.require(validation.session_id(id))

    def sessions(self, *, project: str | None = None, active: bool | None = None, limit: int = 50) -> list[Session]:
        """Sessions, the latest first; `active` asks for those that have, or have not, ended."""
        validation.whole_number(limit, "limit", 1, 1_000_000)
        self._recorder.settle()
        return self._store.sessions.list_sessions(validation.name(project, "project"), active, limit)

    def session_context(self, memory_id: str) -> SessionContext | None:
        """The session that used a memory last, and how; None where no session did."""
        self._recorder.settle()
        return self._store.sessions.find_context(given_id(memory_id))

    # Supersession and relations

    def supersede(self, old: str, new: str, *, at: Moment | None = None, said_by: str | None = None) -> Memory:
        """
        Say that a memory replaces another, which from then on is left out of search.

        "Then" is now or, where the new memory was dated back, the time it tells of; `at` says otherwise.
        """
        moment = validation.moment_or_none(at, "at")
        who = validation.name(said_by, "said_by")
        return self._shown(self._store.links.supersede(given_id(old), given_id(new), moment, who, datetime.now(UTC)))

    def unsupersede(self, old: str) -> Memory:
        """Undo `supersede`: the memory holds again from now on."""
        return self._shown(self._store.links.unsupersede(given_id(old), datetime.now(UTC)))

    def replaced(self, id: str) -> list[Memory]:
        """What a memory has superseded itself, the earlier first."""
        return [self._shown(memory) for memory in self._store.links.list_superseded(given_id(id))]

    def relate(self, a: str, b: str, kind: str, *, confidence: float = 1.0, said_by: str | None = None) -> Relation:
        """Say what a memory has to do with another: `a` `kind` `b`. Said again, the new confidence counts."""
        return self._store.links.relate(
            given_id(a),
            given_id(b),
            validation.relation_kind(kind),
            validation.number(confidence, "confidence", 0, 1),
            validation.name(said_by, "said_by"),
            datetime.now(UTC),
        )

    def unrelate(self, a: str, b: str, kind: str) -> None:
        """Take back what `relate` said, from now on."""
        self._store.links.unrelate(given_id(a), given_id(b), validation.relation_kind(kind), datetime.now(UTC))

    # Facts and strength

    def add_fact(
        self,
        id: str,
        text: str,
        *,
        kind: str | None = None,
        confidence: float | None = None,
        decay_rate: float | None = None,
        subject: str | None = None,
        predicate: str | None = None,
        object: str | None = None,
    ) -> Fact:
        """Note one thing that a memory says, and how sure it is. The memory is found by the words of its facts, too."""
        draft = validation.fact(
            dict(
                text=text, kind=kind, confidence=confidence, decay_rate=decay_rate, subject=subject,
                predicate=predicate, object=object,
            )
        )  # fmt: skip
        fact = self._store.strength.add_fact(given_id(id), self._redaction.fact(draft), datetime.now(UTC))
        return self._certain(fact)

    def remove_fact(self, id: str) -> Fact:
        """Take a fact out of its memory, with its history."""
        return self._certain(self._store.strength.remove_fact(given_id(id)))

    def reinforce_fact(self, id: str, amount: float = 0.1) -> Fact:
        """Confirm a fact: what is left of its confidence rises by a share of what is missing to 1."""
        share = validation.number(amount, "amount", 0, 1)
        rates = self._profile.fact_decay
        return self._certain(self._store.strength.reinforce_fact(given_id(id), share, datetime.now(UTC), rates))

    def reinforce(self, id: str, amount: float = 0.1, *, session: str | None = None) -> Memory:
        """Confirm a memory: salience and the confidence of its facts rise by a share of what is missing to 1."""
        return self._strengthen(id, validation.number(amount, "amount", 0, 1), session)

    def deemphasize(self, id: str, amount: float = 0.2) -> Memory:
        """Let a memory count for less: salience falls by a share of itself."""
        return self._strengthen(id, -validation.number(amount, "amount", 0, 1), None)

    def pin(self, id: str) -> Memory:
        """Make a memory one of the few that always belong in context."""
        return self._shown(self._store.strength.set_pinned(given_id(id), True, datetime.now(UTC)))

    def unpin(self, id: str) -> Memory:
        return self._shown(self._store.strength.set_pinned(given_id(id), False, datetime.now(UTC)))

    # Recalls

    def recalls(
        self,
        *,
        memory: str | None = None,
        session: str | None = None,
        since: Moment | None = None,
        limit: int = 50,
    ) -> list[Recall]:
        """What was asked with `record` on, and what came back, the latest first."""
        self._recorder.settle()
        validation.whole_number(limit, "limit", 1, 1_000_000)
        return self._store.recalls.list_recalls(
            None if memory is None else given_id(memory),
            None if session is None else self._store.sessions.resolve_id(validation.session_id(session)),
            validation.moment_or_none(since, "since"),
            limit,
        )

    def clear_recalls(self, *, before: Moment | None = None) -> int:
        """Drop the record of what was recalled, of before a time or all of it; what it reinforced stays so."""
        self._recorder.flush()
        return self._store.recalls.clear(validation.moment_or_none(before, "before"))

    # Feedback

    def feedback(self, id: str, good: bool, *, query: str | None = None) -> Feedback:
        """
        Say whether a memory was a good answer to a question: to `query`, or else to the last recorded search that found
        it. It changes no ranking; `memorist eval --from-recalls` measures by it.
        """
        self._recorder.settle()
        fits = validation.flag(good, "good")
        question = self._last_question(given_id(id)) if query is None else validation.query_text(query)
        if not question.strip():
            raise InvalidInput("the query is empty; say which question the memory answers, or does not")
        return self._store.feedback.put(given_id(id), self._redaction.shown(question), fits, datetime.now(UTC))

    def feedbacks(self, *, memory: str | None = None, limit: int = 1000) -> list[Feedback]:
        """What was said of answers, the latest first."""
        validation.whole_number(limit, "limit", 1, 1_000_000)
        return self._store.feedback.list_feedback(None if memory is None else given_id(memory), limit)

    # Lenses

    def lenses(self) -> list[Lens]:
        """The ways of looking that were set, by name."""
        return [Lens(name, **definition) for name, definition in self._store.lenses.load_all().items()]

    def lens(self, name: str) -> Lens:
        return self._lens(name)

    def set_lens(
        self,
        name: str,
        *,
        boosts: Mapping[str, Mapping[str, float]] | None = None,
        recency: Mapping[str, Any] | None = None,
        profile: str | None = None,
        **filters: Any,
    ) -> Lens:
        """
        Name a way of looking: filters (those of `search`), a profile, and what counts for more.

        `boosts` are factors by field and value, as {"tag": {"decision": 1.5}}; fields are sector, kind, tag and source.
        """
        plain = {field: _plain(value) for field, value in filters.items() if value is not None}
        validation.search_filter(plain)
        lens = Lens(
            validation.required_name(name, "name"),
            plain,
            _boosts(boosts or {}),
            None if recency is None else dict(recency),
            None if profile is None else options.profile(profile).name,
        )
        options.settle(self._profile, {"recency": lens.recency})
        definition = {field: value for field, value in asdict(lens).items() if field != "name"}
        self._store.lenses.put(lens.name, validation.metadata(definition))
        return lens

    def remove_lens(self, name: str) -> None:
        if not self._store.lenses.remove(validation.required_name(name, "name")):
            self._lens(name)  # says which there are

    def _last_question(self, id: str) -> str:
        """What was asked last of all that found a memory."""
        for recall in self._store.recalls.list_recalls(id, None, None, 1000):
            if recall.query and recall.query.strip():
                return recall.query
        raise NotFound(f"no recorded search found memory {id}; say which question it answers, with a query")

    def _summary(self, summary: object) -> str | None:
        return self._redaction.shown_or_none(validation.text_or_none(summary, "summary"))

    def _strengthen(self, id: str, share: float, session: str | None) -> Memory:
        place = None if session is None else validation.session_id(session)
        now = datetime.now(UTC)
        return self._shown(self._store.strength.adjust_salience(given_id(id), share, now, self._decay, place))

    def _certain(self, fact: Fact) -> Fact:
        return certain([fact], self._profile.fact_decay, datetime.now(UTC))[0]


def _plain(value: Any) -> Any:
    """A filter as JSON knows it. A phrase such as "last week" stays one, and is understood anew in each search."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    return list(value) if isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping) else value


def _boosts(given: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float]]:
    checked: dict[str, dict[str, float]] = {}
    for field, factors in given.items():
        name = "tag" if field == "tags" else validation.choice(field, BOOSTED, "boosts:")
        if not isinstance(factors, Mapping):
            raise InvalidInput(f"boosts.{name} must be a mapping of values to factors, not {type(factors).__name__}")
        checked[name] = {
            validation.required_name(value, name): validation.number(factor, f"boosts.{name}.{value}", 0, 100)
            for value, factor in factors.items()
        }
    return checked
