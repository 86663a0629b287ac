"""What a conversation should know: memories as a block for a language model."""

import re
from collections.abc import Iterator
from itertools import islice

from recollect import inputs
from recollect.documents import DocumentHit
from recollect.embed.tokens import count_tokens
from recollect.engine.filing import Filing
from recollect.present.context import Around, Block, index_line, session_line
from recollect.present.places import widened
from recollect.records import GLOBAL, TURN, Filter, Hit, Memory

# Relevance; less than `RELEVANT`, as a memory too many costs some tokens, and one too few the answer.
WORTH_TELLING = 0.25
LEAST_BUDGET, MOST_BUDGET = 64, 1_000_000  # tokens; in less, nothing could be told
MOST_CORE = 200  # pinned memories that are looked at
RECENT_PAGE, RECENT_PAGES = 40, 12  # memories that are looked at for the latest that are no turns, so many at a time
RECENT_SESSIONS, MOST_SESSIONS = 3, 30  # told of, and looked at
SHORT = 1000  # characters of a message that is looked for as a whole
PARAGRAPH = 500  # characters of the first and of the last paragraph of a longer one

_BLANK_LINES = re.compile(r"\n\s*\n")


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
        limit = inputs.limit(limit)
        own = None if session is None else inputs.session_id(session)
        found = self.search(
            _gist(inputs.query_text(message)),
            limit=min(limit * 3, inputs.MAX_LIMIT),  # some of it may be known already
            project=inputs.name(project, "project"),
            include_global=inputs.flag(include_global, "include_global"),
            include_documents=inputs.flag(documents, "documents"),
            min_relevance=inputs.number(min_relevance, "min_relevance", 0, 1),
            snippet_words=max(32, budget // limit // 2),
            record="off",
        )
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
        count = inputs.whole_number(recent, "recent", 0, 1000)
        filter = self._filter({"project": project, "include_global": include_global}, include_superseded=False)
        block.put_lines("recent-memories", map(index_line, islice(self._lately(filter), count)))
        sessions = self._store.sessions.page(inputs.name(project, "project"), None, MOST_SESSIONS)
        told = islice((session for session in sessions if session.summary), RECENT_SESSIONS)
        block.put_lines("recent-conversations", map(session_line, told))
        return str(block)

    def _block(self, budget: object, core: object, project: object, include_global: object) -> Block:
        block = Block(inputs.whole_number(budget, "budget", LEAST_BUDGET, MOST_BUDGET), count_tokens)
        if inputs.flag(core, "core"):
            block.put_core(self._core(inputs.name(project, "project"), inputs.flag(include_global, "include_global")))
        return block

    def _core(self, project: str | None, include_global: bool) -> list[Memory]:
        """The memories that always belong in context, the more salient first."""
        pinned = self._store.page(Filter(pinned=True, superseded=False), limit=MOST_CORE, cursor=None, deleted=False)
        everywhere = (None, project) if include_global else (project,)
        wanted = [
            memory
            for memory in pinned
            if project is None or memory.project in everywhere or (include_global and memory.tier == GLOBAL)
        ]
        return sorted(wanted, key=lambda memory: (-memory.salience, memory.created_at))

    def _lately(self, filter: Filter) -> Iterator[Memory]:
        """The latest that are neither turns nor pinned, as far as they are looked for."""
        cursor = None
        for _ in range(RECENT_PAGES):
            page = self._store.page(filter, limit=RECENT_PAGE, cursor=cursor, deleted=False)
            yield from (memory for memory in page if memory.kind != TURN and not memory.pinned)
            if (cursor := page.cursor) is None:
                return

    def _around(self, hit: Hit) -> Around:
        if isinstance(hit, DocumentHit):
            ((*chunks,),) = self._store.documents.stretches([(hit.document, hit.ordinal - 1, hit.ordinal + 1)])
            return Around(widened(hit, chunks))
        if hit.memory.kind != TURN or not hit.session:
            return Around()
        # One that was moved to another project does not come along.
        home = (hit.memory.project,) if hit.memory.project else ()
        beside = Filter(session=hit.session.id, kind=(TURN,), project=home)
        turns = self._store.around(hit.memory.id, beside, before=1, after=1)
        place = next((at for at, turn in enumerate(turns) if turn.id == hit.memory.id), None)
        if place is None:  # it went in the meantime
            return Around()
        return Around(before=tuple(turns[:place]), after=tuple(turns[place + 1 :]))


def _gist(message: str) -> str:
    """Of a long message the first and the last paragraph, where people say what they want; the rest was pasted."""
    if len(message) <= SHORT:
        return message
    paragraphs = _BLANK_LINES.split(message.strip())
    return f"{paragraphs[0][:PARAGRAPH]} {paragraphs[-1][-PARAGRAPH:]}"
