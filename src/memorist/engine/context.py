"""Context for a language model: a block of memories about a message or a project, and the record of what it got."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Struct

from memorist import validation
from memorist.arguments import MAX_PAGE, Budget, Filter, MetadataFilter
from memorist.contract import operation
from memorist.embed.wordpiece import count_tokens
from memorist.engine.room import Room
from memorist.engine.search import Searcher
from memorist.file_records import DocumentHit
from memorist.metadata_filter import Condition
from memorist.present.context import ContextBlock, HitContext
from memorist.records import RELEVANT, TURN, Hit, Memory, RecalledMemory, Results
from memorist.schemas import Meta
from memorist.search.page import extend_with_chunks

if TYPE_CHECKING:
    from memorist.engine.memory import Memorist
    from memorist.engine.project_view import ProjectView

# Less than `RELEVANT`: a memory too many costs some tokens, one too few costs the answer.
MIN_RELEVANCE = 0.15
BRIEFING = "briefing"  # the mode of a recall that nobody asked for
_MIN_BUDGET, _MAX_BUDGET = 64, 1_000_000  # tokens
_MAX_CORE = 200  # pinned memories that are considered
_RECENT_PAGE, _RECENT_PAGES = 40, 12  # memories a page, and pages, searched for recent ones that are no turns
_RECENT_SESSIONS, MAX_SESSIONS = 3, 30  # listed, and considered
_EDGE_CHARACTERS, _MESSAGE_CHARACTERS = 300, 1000  # of a message's first and last line, and of all of it, as queries
_MIN_PASSAGE, _MAX_PASSAGE = 32, 1000  # words of a memory that does not fit whole

# "What do you know about X?", "summarise what we know of X", "everything about X"
_ALL_ABOUT = re.compile(
    r"""\W*(?:(?:please|(?:can|could|would)\ you|i\ want\ you\ to)\s+)*
    (?:(?:tell\ (?:me|us)|show\ (?:me|us)|list|summari[sz]e|recap|give\ (?:me|us)\ a\ summary\ of)\s+)?
    (?:
        (?:what|everything|all|anything)(?:\s+that)?\s+(?:do\s+|did\s+|have\s+)?(?:you|we|i)\s+(?:already\s+|still\s+)?
            (?:know|remember|recall|learnt|learned|noted|have\ stored|stored)\s+(?:of|about|on|regarding)
        | everything\s+(?:of|about|on)
    )
    \s+(?P<subject>\S[^\n]{0,199}?)\W*""",
    re.IGNORECASE | re.VERBOSE,
)
_WHO_AM_I = re.compile(
    r"\W*(?:(?:do\ you\ know|tell\ me)\s+)?(?:who\s+(?:am\ i|i\ am)|(?:something\ )?about\ (?:me|myself))\W*",
    re.IGNORECASE | re.VERBOSE,
)
_THE_USER = frozenset(["me", "myself", "the user", "my user"])
_PERSONAL_QUESTIONS = (
    "What is my name?",
    "Where do I live?",
    "What is my job?",
    "Who is in my family?",
    "What do I like?",
    "What do I prefer?",
    "What am I working on?",
)


class _ContextScope(Struct, frozen=True):
    """The budget of a block, and which memories belong in it."""

    budget: int
    core: bool
    project: str | None
    include_global: bool
    metadata: Mapping[str, Any] | None = None

    @classmethod
    def check(
        cls, budget: object, core: object, project: object, include_global: object, metadata: Any = None
    ) -> "_ContextScope":
        return cls(
            validation.whole_number(budget, "budget", _MIN_BUDGET, _MAX_BUDGET),
            validation.flag(core, "core"),
            validation.name(project, "project"),
            validation.flag(include_global, "include_global"),
            metadata,
        )

    @property
    def filters(self) -> dict[str, Any]:
        return {"project": self.project, "include_global": self.include_global, "metadata": self.metadata}


class Prompting(Room):
    """Packs memories into blocks for a language model, within a budget of tokens."""

    @operation("POST /context", reads=True, one_project=True, answer="context")
    def context(
        self,
        message: Annotated[str, Meta("The task or question")],
        *,
        budget: Budget = 2000,
        limit: Annotated[int, Meta("How many memories, besides pinned ones", minimum=0, maximum=MAX_PAGE)] = 5,
        min_relevance: Annotated[
            float, Meta("Only memories at least this relevant", minimum=0, maximum=1)
        ] = MIN_RELEVANCE,
        project: Annotated[str | None, Meta("Only this project, and what is global or belongs to no project")] = None,
        session: str | None = None,
        include_global: bool = True,
        core: Annotated[bool, Meta("Whether pinned memories come first")] = True,
        documents: bool = True,
        metadata: MetadataFilter | None = None,
    ) -> str:
        """
        Return what is remembered about a message, as a `<relevant-context>` block of at most `budget` tokens, or "".

        Pinned memories come first (`core`), then at most `limit` others, none below `min_relevance`. With a `project`,
        only its memories and, with `include_global`, those of no project or of the tier global. Turns of the `session`
        under way are left out: they are known there. `metadata` filters all of it, as in `search`.
        """
        scope = _ContextScope.check(budget, core, project, include_global, metadata)
        block = self._start_block(scope)
        limit = validation.limit(limit)
        session = None if session is None else validation.session_id(session)
        queries = _find_queries(validation.message(message))
        least = validation.number(min_relevance, "min_relevance", 0, 1)
        options = {
            "limit": min(limit * 3, validation.MAX_LIMIT),  # some of them may be in the block already
            # Of so many questions that were not asked, each finds something that is a little relevant.
            "min_relevance": max(least, RELEVANT) if queries is _PERSONAL_QUESTIONS else least,
            "snippet_words": min(max(_MIN_PASSAGE, scope.budget // limit // 2), _MAX_PASSAGE),
            "record": "off",
        }
        documents = validation.flag(documents, "documents")
        searcher = Searcher(self._resources)
        requests = (
            searcher.build_request(query, scope.filters, options, include_documents=documents) for query in queries
        )
        hits = _merge_hits(map(searcher.search, requests))
        new = (hit for hit in hits if session is None or not hit.session or hit.session.id != session)
        condition = self._resources.resolve_filter(scope.filters).metadata
        given = list(islice(new, limit))
        block.put_hits(given, partial(self._find_surroundings, condition))
        return self._record(message, "hybrid", block, given)

    @operation("POST /briefing", reads=True, answer="context")
    def briefing(
        self,
        *,
        budget: Budget = 2000,
        recent: Annotated[
            int, Meta("Without a message: how many of the latest memories", minimum=0, maximum=MAX_PAGE)
        ] = 10,
        project: str | None = None,
        include_global: bool = True,
        core: Annotated[bool, Meta("Whether pinned memories come first")] = True,
    ) -> str:
        """Return pinned memories, the `recent` ones and the latest conversations as a block like `context`, or ""."""
        scope = _ContextScope.check(budget, core, project, include_global)
        block = self._start_block(scope)
        count = validation.whole_number(recent, "recent", 0, 1000)
        filter = self._resources.resolve_filter(scope.filters, include_superseded=False)
        block.put_memory_lines("recent-memories", islice(self._iter_recent(filter), count))
        sessions = self._store.sessions.list_sessions(scope.project, None, MAX_SESSIONS)
        summarised = islice((session for session in sessions if session.summary), _RECENT_SESSIONS)
        block.put_session_lines("recent-conversations", summarised)
        return self._record("", BRIEFING, block, [])

    def _record(self, message: str, mode: str, block: ContextBlock, hits: Sequence[Hit]) -> str:
        """Return a block, and record it where it is for an agent, with the text of each memory."""
        text = str(block)
        if self._resources.records_prompts:
            found = {hit.memory.id: hit for hit in hits}
            texts = {id: text for id, text in block.texts.items() if not isinstance(found.get(id), DocumentHit)}
            self._resources.record_prompt(
                message, mode, self._resources.profile.name, None,
                tuple(_recall_memory(id, place, found.get(id), texts[id]) for place, id in enumerate(texts, 1)),
                count_tokens(text) if text else 0,
            )  # fmt: skip
        return text

    def _start_block(self, scope: _ContextScope) -> ContextBlock:
        block = ContextBlock(scope.budget, count_tokens)
        if scope.core:
            filter = self._resources.resolve_filter({"pinned": True, **scope.filters}, include_superseded=False)
            pinned = self._store.list_page(filter, limit=_MAX_CORE, cursor=None, deleted=False)
            block.put_core(sorted(pinned, key=lambda memory: (-memory.salience, memory.created_at)))
        return block

    def _iter_recent(self, filter: Filter) -> Iterator[Memory]:
        """Yield the latest memories that are neither turns nor pinned."""
        cursor = None
        for _ in range(_RECENT_PAGES):
            page = self._store.list_page(filter, limit=_RECENT_PAGE, cursor=cursor, deleted=False)
            yield from (memory for memory in page if memory.kind != TURN and not memory.pinned)
            if (cursor := page.cursor) is None:
                return

    def _find_surroundings(self, condition: Condition | None, hit: Hit) -> HitContext:
        """Return the chunks around a chunk, or the turns before and after a turn, of those with such metadata."""
        if isinstance(hit, DocumentHit):
            ((*chunks,),) = self._store.documents.load_chunk_ranges([(hit.document, hit.ordinal - 1, hit.ordinal + 1)])
            return HitContext(extend_with_chunks(hit, chunks))
        if hit.memory.kind != TURN or not hit.session:
            return HitContext()
        # A turn that was moved to another project is left out.
        project = (hit.memory.project,) if hit.memory.project else ()
        same_session = Filter(session=hit.session.id, kind=(TURN,), project=project, metadata=condition)
        turns = self._store.list_around(hit.memory.id, same_session, before=1, after=1)
        place = next((at for at, turn in enumerate(turns) if turn.id == hit.memory.id), None)
        if place is None:  # it was removed in the meantime
            return HitContext()
        return HitContext(before=tuple(turns[:place]), after=tuple(turns[place + 1 :]))


def record_option(memory: "Memorist | ProjectView") -> str | None:
    """Return the option `record` for a search whose answer `record_hits` records."""
    return "off" if memory._resources.records_prompts else None


def record_hits(memory: "Memorist | ProjectView", results: Results, given: Mapping[str, str]) -> None:
    """Record that a tool gave a model these texts about the hits of a search, by their ids."""
    resources = memory._resources
    if not resources.records_prompts:
        return
    hits = [hit for hit in results if hit.memory.id in given and not isinstance(hit, DocumentHit)]
    resources.record_prompt(
        results.query, results.mode, results.profile, results.lens,
        tuple(_recall_memory(hit.memory.id, place, hit, given[hit.memory.id]) for place, hit in enumerate(hits, 1)),
        count_tokens("\n".join(given.values())),
        resources.profile.reinforcement if resources.profile.record == "reinforce" else 0.0,
    )  # fmt: skip


@contextmanager
def record_last(memory: "Memorist | ProjectView") -> Iterator[Callable[[], None]]:
    """Of the contexts that are built within the block, record only the last; none once what is given is called."""
    with memory._resources.recorder.keep_last() as kept:
        yield kept.clear


def _recall_memory(id: str, place: int, hit: Hit | None, text: str) -> RecalledMemory:
    """Return a memory of a block; one that came without being asked about, as a pinned one, has no score."""
    if hit is None:
        return RecalledMemory(id, place, 0.0, 0.0, prompt=text)
    return RecalledMemory(id, place, hit.score, hit.relevance, tuple(fact.id for fact in hit.facts), text)


def _find_queries(message: str) -> Sequence[str]:
    """
    Return the queries for a message: itself and, where it is long or has several lines, its first and last line.

    There people say what they want; pasted text between them would dominate the query. A message that asks for all that
    is known of something is a query for that; of the user, it becomes questions that personal memories answer.
    """
    question = message.strip() if len(message) <= _EDGE_CHARACTERS else ""  # a longer one is none of these
    if _WHO_AM_I.fullmatch(question):
        return _PERSONAL_QUESTIONS
    if asked := _ALL_ABOUT.fullmatch(question):
        subject = asked["subject"]
        return _PERSONAL_QUESTIONS if subject.lower() in _THE_USER else [subject]
    lines = message.strip().splitlines() or [""]
    if len(lines) == 1 and len(message) <= _EDGE_CHARACTERS:
        return [message]
    first, last = lines[0], lines[-1]
    beginning = first if len(first) <= _EDGE_CHARACTERS else first[:_EDGE_CHARACTERS].rpartition(" ")[0]
    end = last if len(last) <= _EDGE_CHARACTERS else last[-_EDGE_CHARACTERS:].partition(" ")[2]
    return list(dict.fromkeys([message[:_MESSAGE_CHARACTERS], beginning, end]))


def _merge_hits(answers: Iterable[Results]) -> list[Hit]:
    """Return the hits of one answer in their order; of several answers each hit once, the more relevant first."""
    first, *others = answers
    if not others:
        return list(first)
    best: dict[str, Hit] = {}
    for hit in chain(first, *others):
        known = best.get(hit.memory.id)
        if known is None or hit.relevance > known.relevance:
            best[hit.memory.id] = hit
    return sorted(best.values(), key=lambda hit: -hit.relevance)
