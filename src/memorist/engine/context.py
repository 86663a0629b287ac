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
from memorist.embed.base import TokenCounter, truncate_to_tokens
from memorist.embed.wordpiece import count_tokens
from memorist.engine.room import Room
from memorist.engine.search import Searcher
from memorist.file_records import DocumentHit
from memorist.metadata_filter import Condition
from memorist.present.framing import CAUTION, as_one_line, frame_element
from memorist.records import RELEVANT, TURN, Hit, Memory, RecalledMemory, Results, Session
from memorist.schemas import Meta
from memorist.search.page import extend_with_chunks
from memorist.text.snippet import ELLIPSIS, preview, strip_marks

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
_ELEMENT_NAME = "relevant-context"
_CORE_BUDGET_SHARE = 0.5  # at most, so that pinned memories leave room for those about the message
_MIN_CUT_TOKENS = 40  # a shorter piece of a memory says nothing
_LINE_CHARACTERS = 160  # of a memory or a session that is listed on one line

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


class _HitContext(Struct, frozen=True):
    """The surroundings of a hit: a passage with more of its file, or the turns before and after a turn."""

    widened: DocumentHit | None = None
    before: tuple[Memory, ...] = ()
    after: tuple[Memory, ...] = ()


class _ContextBlock:
    """A block that accepts what fits its budget."""

    def __init__(self, budget: int, count: TokenCounter) -> None:
        self._count = count
        self._parts: dict[str, str] = {}
        self._names: dict[str, str] = {}
        self.texts: dict[str, str] = {}  # of each memory in the block, by id
        self._budget = budget
        self.left = budget - count(_render_block([]))

    def __str__(self) -> str:
        return _render_block(self._parts.values()) if self._parts else ""

    def cost(self, text: str) -> int:
        return self._count(text) + 1  # the end of its line

    def put(self, key: str, text: str, texts: Mapping[str, str], *, at_most: int | None = None) -> bool:
        """
        Append an element, or replace the one with this key; return False where it does not fit.

        `texts` are the parts of it that memories have, by their ids.
        """
        there = self._parts.get(key)
        cost = self.cost(text) - (self.cost(there) if there else 0)
        if cost > (self.left if at_most is None else min(self.left, at_most)):
            return False
        self.left -= cost
        self._parts[key] = text
        self.texts |= texts
        return True

    def put_core(self, memories: Iterable[Memory]) -> None:
        """Add pinned memories, each whole or not at all."""
        room = int(self._budget * _CORE_BUDGET_SHARE)
        for memory in memories:
            text = frame_element("core-memory", self._labels(memory), memory.content)
            if self.put(memory.id, text, {memory.id: text}, at_most=room):
                room -= self.cost(text)

    def put_hits(self, hits: Sequence[Hit], around: Callable[[Hit], _HitContext]) -> None:
        """Add hits: the best of each source first, whole ones before cut ones, then their surroundings."""
        found = [hit for hit in _interleave_sources(hits) if hit.memory.id not in self.texts]
        whole = [hit for hit in found if self._put_hit(hit, self._frame_whole(hit))]
        for hit in found:
            if hit not in whole and (cut := self._cut_to_fit(hit)):
                self._put_hit(hit, cut)
        for hit in whole:
            self._add_surroundings(hit, around(hit))

    def put_memory_lines(self, name: str, memories: Iterable[Memory]) -> None:
        """Add as many memories as fit, each on a line, in an element of their own."""
        self._put_lines(name, ((memory.id, _index_line(memory)) for memory in memories), are_memories=True)

    def put_session_lines(self, name: str, sessions: Iterable[Session]) -> None:
        """Add as many sessions as fit, each on a line, in an element of their own."""
        self._put_lines(name, ((session.id, _session_line(session)) for session in sessions), are_memories=False)

    def _put_lines(self, name: str, lines: Iterable[tuple[str, str]], *, are_memories: bool) -> None:
        taken: dict[str, str] = {}
        for id, line in lines:
            if self.cost(frame_element(name, {}, "\n".join([*taken.values(), line]))) <= self.left:
                taken[id] = line
        if taken:
            self.put(name, frame_element(name, {}, "\n".join(taken.values())), taken if are_memories else {})

    def _put_hit(self, hit: Hit, text: str) -> bool:
        return self.put(hit.memory.id, text, {hit.memory.id: text})

    def _cut_to_fit(self, hit: Hit) -> str | None:
        """Return as much of a hit's passage as fits."""
        passage = strip_marks(hit.snippet)
        room = self.left - self.cost(self._frame(hit, ELLIPSIS, cut=True))
        if room < _MIN_CUT_TOKENS:
            return None
        shown = truncate_to_tokens(passage, room, self._count)
        text = self._frame(hit, shown if shown == passage else shown + ELLIPSIS, cut=True)
        return text if self.cost(text) <= self.left else None

    def _add_surroundings(self, hit: Hit, around: _HitContext) -> None:
        if around.widened:
            self._put_hit(hit, self._frame_whole(around.widened))
            return
        before = [memory for memory in around.before if memory.id not in self.texts]
        after = [memory for memory in around.after if memory.id not in self.texts]
        for earlier, later in ((before, after), (before, []), ([], after)):
            texts = {memory.id: self._frame_memory(memory) for memory in earlier}
            texts[hit.memory.id] = self._frame_whole(hit)
            texts |= {memory.id: self._frame_memory(memory) for memory in later}
            if len(texts) > 1 and self.put(hit.memory.id, "\n".join(texts.values()), texts):
                return

    def _frame_memory(self, memory: Memory) -> str:
        return frame_element("memory", self._labels(memory), memory.content)

    def _frame_whole(self, hit: Hit) -> str:
        return self._frame(hit, hit.memory.content)

    def _frame(self, hit: Hit, text: str, *, cut: bool = False) -> str:
        labels = _location_labels(hit) if isinstance(hit, DocumentHit) else self._labels(hit.memory)
        return frame_element("memory", {**labels, "part": "cut"} if cut else labels, text)

    def _labels(self, memory: Memory) -> Mapping[str, str | None]:
        return {
            "id": self._name(memory),
            "date": f"{memory.created_at:%Y-%m-%d}",
            "kind": memory.kind,
            "project": memory.project,
            "title": memory.title,
            "source": memory.source,
        }

    def _name(self, memory: Memory) -> str:
        """Return the short id, unless another memory of the block has it: callers can choose ids, also to mislead."""
        first = self._names.setdefault(memory.short_id, memory.id)
        return memory.short_id if first == memory.id else memory.id


def _interleave_sources(hits: Sequence[Hit]) -> list[Hit]:
    """Order hits by rounds: the best hit of each source, then the second of each, and so on."""
    places: dict[str, int] = {}
    rounds = []
    for hit in hits:
        source = _source_of(hit)
        rounds.append((places.setdefault(source, 0), hit))
        places[source] += 1
    return [hit for _, hit in sorted(rounds, key=lambda entry: entry[0])]


def _index_line(memory: Memory) -> str:
    """Return a memory on one line: date, id, kind and beginning."""
    about = f"{memory.created_at:%Y-%m-%d} {memory.short_id}" + (f" ({memory.kind})" if memory.kind else "")
    return as_one_line(f"{about}: {preview(memory.summary or memory.title or memory.content, _LINE_CHARACTERS)}")


def _session_line(session: Session) -> str:
    """Return a session on one line: date and summary."""
    return as_one_line(f"{session.started_at:%Y-%m-%d}: {preview(session.summary or '', _LINE_CHARACTERS)}")


def _source_of(hit: Hit) -> str:
    if isinstance(hit, DocumentHit):
        return f"document {hit.document}"
    origin = hit.memory.session
    return f"session {origin.id}" if origin else f"source {hit.memory.source or hit.memory.id}"


def _location_labels(hit: DocumentHit) -> Mapping[str, str | None]:
    titles = dict.fromkeys(part for part in (hit.title, *hit.breadcrumb) if part)
    return {
        "date": f"{hit.memory.created_at:%Y-%m-%d}",
        "kind": "document",
        "title": " › ".join(titles),
        "source": f"{hit.path}:{hit.start_line}-{hit.end_line}",
    }


def _render_block(parts: Iterable[str]) -> str:
    return "\n".join([f"<{_ELEMENT_NAME}>", CAUTION, *parts, f"</{_ELEMENT_NAME}>"])


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

    def _record(self, message: str, mode: str, block: _ContextBlock, hits: Sequence[Hit]) -> str:
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

    def _start_block(self, scope: _ContextScope) -> _ContextBlock:
        block = _ContextBlock(scope.budget, count_tokens)
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

    def _find_surroundings(self, condition: Condition | None, hit: Hit) -> _HitContext:
        """Return the chunks around a chunk, or the turns before and after a turn, of those with such metadata."""
        if isinstance(hit, DocumentHit):
            ((*chunks,),) = self._store.documents.load_chunk_ranges([(hit.document, hit.ordinal - 1, hit.ordinal + 1)])
            return _HitContext(extend_with_chunks(hit, chunks))
        if hit.memory.kind != TURN or not hit.session:
            return _HitContext()
        # A turn that was moved to another project is left out.
        project = (hit.memory.project,) if hit.memory.project else ()
        same_session = Filter(session=hit.session.id, kind=(TURN,), project=project, metadata=condition)
        turns = self._store.list_around(hit.memory.id, same_session, before=1, after=1)
        place = next((at for at, turn in enumerate(turns) if turn.id == hit.memory.id), None)
        if place is None:  # it was removed in the meantime
            return _HitContext()
        return _HitContext(before=tuple(turns[:place]), after=tuple(turns[place + 1 :]))


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
