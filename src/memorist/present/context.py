"""A block of memories for a language model, packed within a budget of tokens."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct

from memorist.embed.base import TokenCounter, truncate_to_tokens
from memorist.file_records import DocumentHit
from memorist.present.framing import CAUTION, as_one_line, frame_element
from memorist.records import Hit, Memory, Session
from memorist.text.snippet import ELLIPSIS, preview, strip_marks

_ELEMENT_NAME = "relevant-context"
_CORE_BUDGET_SHARE = 0.5  # at most, so that pinned memories leave room for those about the message
_MIN_CUT_TOKENS = 40  # a shorter piece of a memory says nothing
LINE_CHARACTERS = 160  # of a memory or a session that is listed on one line


class HitContext(Struct, frozen=True):
    """The surroundings of a hit: a passage with more of its file, or the turns before and after a turn."""

    widened: DocumentHit | None = None
    before: tuple[Memory, ...] = ()
    after: tuple[Memory, ...] = ()


class ContextBlock:
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

    def put_hits(self, hits: Sequence[Hit], around: Callable[[Hit], HitContext]) -> None:
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

    def _add_surroundings(self, hit: Hit, around: HitContext) -> None:
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
    return as_one_line(f"{about}: {preview(memory.summary or memory.title or memory.content, LINE_CHARACTERS)}")


def _session_line(session: Session) -> str:
    """Return a session on one line: date and summary."""
    return as_one_line(f"{session.started_at:%Y-%m-%d}: {preview(session.summary or '', LINE_CHARACTERS)}")


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
