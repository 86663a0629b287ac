"""What a conversation should know: memories as a block for a language model."""

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain, islice

from memorist import validation
from memorist.documents import DocumentHit
from memorist.embed.wordpiece import count_tokens
from memorist.engine.filing import Filing
from memorist.present.context import ContextBlock, HitContext, index_line, session_line
from memorist.present.hits import widened
from memorist.records import TURN, Filter, Hit, Memory, Results

# Relevance; less than `RELEVANT`, as a memory too many costs some tokens, and one too few the answer.
WORTH_TELLING = 0.25
LEAST_BUDGET, MOST_BUDGET = 64, 1_000_000  # tokens; in less, nothing could be told
MOST_CORE = 200  # pinned memories that are looked at
RECENT_PAGE, RECENT_PAGES = 40, 12  # memories that are looked at for the latest that are no turns, so many at a time
RECENT_SESSIONS, MOST_SESSIONS = 3, 30  # told of, and looked at
SAID, MOST_SAID = 300, 1000  # characters of a message: of its beginning and its end, and of all of it, as questions
SHORTEST_PASSAGE, LONGEST_PASSAGE = 32, 1000  # words of a memory that does not fit whole


class Recalling(Filing):
    """Everything that is told before it is asked for."""

    def context(
        self,
        message: str,
        *,
        budget: int = 2000,
        limit: int = 5,
        min_relevance: float = WORTH_TELLING,
        project: str | None = None,
        session: str | None = None,
        include_global: bool = True,
        core: bool = True,
        documents: bool = True,
    ) -> str:
        """
        What memories and files know about a message: a `<relevant-context>` block of at most `budget` tokens, or "".

        Pinned memories come first (`core`), then at most `limit` others, none below `min_relevance`. With a `project`,
        only its memories and, with `include_global`, those of no project or of the tier global. What was said in the
        `session` under way is left out: it is known there.
        """
        block = self._block(budget, core, project, include_global)
        limit = validation.limit(limit)
        own = None if session is None else validation.session_id(session)
        search = partial(
            self.search,
            limit=min(limit * 3, validation.MAX_LIMIT),  # some of it may be known already
            project=validation.name(project, "project"),
            include_global=validation.flag(include_global, "include_global"),
            include_documents=validation.flag(documents, "documents"),
            min_relevance=validation.number(min_relevance, "min_relevance", 0, 1),
            snippet_words=min(max(SHORTEST_PASSAGE, budget // limit // 2), LONGEST_PASSAGE),
            record="off",
        )
        found = _best(map(search, _questions(validation.query_text(message))))
        new = (hit for hit in found if own is None or not hit.session or hit.session.id != own)
        block.put_hits(list(islice(new, limit)), self._around)
        return str(block)

    def briefing(
        self,
        *,
        budget: int = 2000,
        recent: int = 10,
        project: str | None = None,
        include_global: bool = True,
        core: bool = True,
    ) -> str:
        """
        What to know before anything is asked: a block like that of `context`, or "".

        Pinned memories come first (`core`), then the `recent` ones and the latest conversations, a line each.
        """
        block = self._block(budget, core, project, include_global)
        count = validation.whole_number(recent, "recent", 0, 1000)
        filter = self._filter({"project": project, "include_global": include_global}, include_superseded=False)
        block.put_lines("recent-memories", map(index_line, islice(self._lately(filter), count)))
        sessions = self._store.sessions.list_sessions(validation.name(project, "project"), None, MOST_SESSIONS)
        told = islice((session for session in sessions if session.summary), RECENT_SESSIONS)
        block.put_lines("recent-conversations", map(session_line, told))
        return str(block)

    def _block(self, budget: object, core: object, project: object, include_global: object) -> ContextBlock:
        block = ContextBlock(validation.whole_number(budget, "budget", LEAST_BUDGET, MOST_BUDGET), count_tokens)
        if validation.flag(core, "core"):
            block.put_core(
                self._core(validation.name(project, "project"), validation.flag(include_global, "include_global"))
            )
        return block

    def _core(self, project: str | None, include_global: bool) -> list[Memory]:
        """The memories that always belong in context, the more salient first."""
        filter = self._filter(
            {"pinned": True, "project": project, "include_global": include_global}, include_superseded=False
        )
        pinned = self._store.list_page(filter, limit=MOST_CORE, cursor=None, deleted=False)
        return sorted(pinned, key=lambda memory: (-memory.salience, memory.created_at))

    def _lately(self, filter: Filter) -> Iterator[Memory]:
        """The latest that are neither turns nor pinned, as far as they are looked for."""
        cursor = None
        for _ in range(RECENT_PAGES):
            page = self._store.list_page(filter, limit=RECENT_PAGE, cursor=cursor, deleted=False)
            yield from (memory for memory in page if memory.kind != TURN and not memory.pinned)
            if (cursor := page.cursor) is None:
                return

    def _around(self, hit: Hit) -> HitContext:
        if isinstance(hit, DocumentHit):
            ((*chunks,),) = self._store.documents.load_chunk_ranges([(hit.document, hit.ordinal - 1, hit.ordinal + 1)])
            return HitContext(widened(hit, chunks))
        if hit.memory.kind != TURN or not hit.session:
            return HitContext()
        # One that was moved to another project does not come along.
        home = (hit.memory.project,) if hit.memory.project else ()
        beside = Filter(session=hit.session.id, kind=(TURN,), project=home)
        turns = self._store.list_around(hit.memory.id, beside, before=1, after=1)
        place = next((at for at, turn in enumerate(turns) if turn.id == hit.memory.id), None)
        if place is None:  # it went in the meantime
            return HitContext()
        return HitContext(before=tuple(turns[:place]), after=tuple(turns[place + 1 :]))


def _questions(message: str) -> list[str]:
    """
    What is looked for: the message, and of one that is long or of several lines its beginning and its end as well, each
    by itself. There people say what they want; what is between was often pasted, and would drown it.
    """
    lines = message.strip().splitlines() or [""]
    if len(lines) == 1 and len(message) <= SAID:
        return [message]
    first, last = lines[0], lines[-1]
    beginning = first if len(first) <= SAID else first[:SAID].rpartition(" ")[0]
    end = last if len(last) <= SAID else last[-SAID:].partition(" ")[2]
    return list(dict.fromkeys([message[:MOST_SAID], beginning, end]))


def _best(answers: Iterable[Results]) -> list[Hit]:
    """The hits of one answer in their order; of several each once, the more relevant first."""
    first, *others = answers
    if not others:
        return list(first)
    best: dict[str, Hit] = {}
    for hit in chain(first, *others):
        known = best.get(hit.memory.id)
        if known is None or hit.relevance > known.relevance:
            best[hit.memory.id] = hit
    return sorted(best.values(), key=lambda hit: -hit.relevance)
