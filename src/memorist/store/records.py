"""Records that the store exchanges with the stages that write and search."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace
from numpy.typing import NDArray

from memorist import validation
from memorist.arguments import Filter
from memorist.records import Match, Memory, MemoryDraft, Model, Reinforcement
from memorist.store.key_set import Keys
from memorist.store.vector_scan import Codes

if TYPE_CHECKING:
    from memorist.store.image import Image

Check = Callable[[Memory], object]  # raises if a memory is not what a writer expects, while nobody else can write

PART_BITS = 16  # number the parts of a memory; of a million characters, the bundled model makes some thousand


class RecallLimits(Struct, frozen=True):
    """Limits of the recall log: its age in days, and its size in bytes."""

    days: float
    bytes: int

    @classmethod
    def check(cls, days: object, megabytes: object) -> Self:
        size = validation.number(megabytes, "recall_megabytes", *validation.RECALL_MEGABYTES)
        return cls(validation.number(days, "recall_days", *validation.RECALL_DAYS), int(size * 1e6))


class EmbeddingJob(Struct, frozen=True, gc=False):
    """A memory that needs a vector, made of its title and content as they are now."""

    key: int
    title: str | None
    content: str

    @property
    def text(self) -> str:
        return f"{self.title}\n{self.content}" if self.title else self.content


class Part(Struct, frozen=True):
    """A part of a text too long for one vector: the characters of its content from `first` up to `last`."""

    job: EmbeddingJob
    first: int
    last: int
    title: str | None = None  # shortened to leave room for the part

    @property
    def embedding_text(self) -> str:
        """The text given to the model: the part, under the title of the memory."""
        return EmbeddingJob(self.job.key, self.title, self.job.content[self.first : self.last]).text


class ReadyVectors(Struct, frozen=True):
    """Vectors of texts that are not stored yet: the key of a job is the place of its draft."""

    model: Model
    texts: Sequence[EmbeddingJob]
    parts: Sequence[Part]
    vectors: NDArray[np.float16]  # of texts, then of parts

    @classmethod
    def join(cls, singles: Sequence["ReadyVectors | None"]) -> "ReadyVectors | None":
        """Join those of single drafts, of which some have none, to those of all; of one model, the first's."""
        given = [(place, one) for place, one in enumerate(singles) if one is not None]
        if len(singles) == 1 or not given:
            return singles[0]
        model = given[0][1].model
        given = [(place, one) for place, one in given if one.model == model]
        jobs = [replace(one.texts[0], key=place) for place, one in given]
        parts = [replace(part, job=job) for job, (_, one) in zip(jobs, given, strict=True) for part in one.parts]
        vectors = [*(one.vectors[:1] for _, one in given), *(one.vectors[1:] for _, one in given)]
        return cls(model, jobs, parts, np.concatenate(vectors))


class AddRequest(NamedTuple):
    """A draft to be added; behind a `wall` around one project, an id that was chosen is a name within that project."""

    draft: MemoryDraft
    reinforcement: Reinforcement
    ready: ReadyVectors | None
    wall: Filter

    def together_with(self) -> tuple[Reinforcement, Filter, int | None]:
        """Return what is the same in all that are written by the same statements: one with a name has its own."""
        return self.reinforcement, self.wall, None if self.draft.if_exists is None else id(self)


class AddResult(Struct, frozen=True):
    """
    The memory that holds a draft, and if it is new: otherwise its text was known already and was reinforced.

    `pending` is None if it needs no vector, or has it.
    """

    memory: Memory
    is_new: bool
    pending: EmbeddingJob | None


class AddedBatch(Struct, frozen=True):
    """The ids of the memories that hold the drafts of a batch, in order, and jobs for those that lack vectors."""

    ids: list[str]
    pending: list[EmbeddingJob]


class ConversationResult(Struct, frozen=True):
    """
    The ids and embedding jobs of new turns, the numbers of turns that were left out and of new sessions.

    The turns that are `known` are stored already, or were forgotten or erased; `erased` counts the latter alone.
    """

    ids: tuple[str, ...]
    pending: tuple[EmbeddingJob, ...]
    known: int
    sessions: int
    erased: int = 0


class Scope(Struct, frozen=True, eq=False):
    """
    A filter, resolved once for both legs.

    `keys` are those of all memories that pass, where they were listed; or `excluded` those of all that do not. They
    ascend, and may be those of forgotten memories, too, which no index has. `metadata_test` is the condition for what
    the filter asks of the metadata of a memory `m`, with its values, by the index of fields.

    Where there is an `image` of the namespace, `passing` tells which of its rows pass; None lets all of them pass.
    """

    filter: Filter
    keys: NDArray[np.int64] | None = None
    excluded: NDArray[np.int64] | None = None
    metadata_test: tuple[str, dict[str, Any]] | None = None
    image: "Image | None" = None
    passing: NDArray[np.bool_] | None = None

    @property
    def is_listed(self) -> bool:
        """True if keys say what passes, so that nothing is left to check."""
        return self.keys is not None or self.excluded is not None


class Matches(Struct, frozen=True, eq=False):
    """
    Matches of a leg, best first, as arrays: the keys of rows and their scores, higher being better.

    The keyword leg adds whether a row has all words of the query, and the share of them it has, rare words counting for
    more (`coverage`).
    """

    keys: NDArray[np.int64]
    scores: NDArray[np.float64]
    has_all_words: NDArray[np.bool_]
    coverage: NDArray[np.float64]

    @classmethod
    def of(cls, matches: Sequence[Match]) -> "Matches":
        keys, scores, has_all_words, coverage = zip(*matches, strict=True) if matches else ((), (), (), ())
        return cls(
            np.array(keys, np.int64),
            np.array(scores, np.float64),
            np.array(has_all_words, np.bool_),
            np.array(coverage, np.float64),
        )

    @classmethod
    def of_vectors(cls, keys: NDArray[np.int64], similarities: NDArray[np.floating[Any]]) -> "Matches":
        scores = similarities.astype(np.float64, copy=False)
        return cls(keys, scores, np.zeros(len(keys), np.bool_), np.ones(len(keys)))

    @classmethod
    def join(cls, one: "Matches", other: "Matches") -> "Matches":
        """Return the matches of two stores as if they were one: those with all words first, then by score."""
        if not len(other):
            return one
        pairs = zip(one._arrays, other._arrays, strict=True)
        both = cls(*(np.concatenate(pair) for pair in pairs))
        return both.take(np.lexsort((both.keys, -both.scores, ~both.has_all_words)))

    @property
    def _arrays(self) -> tuple[NDArray[Any], ...]:
        return self.keys, self.scores, self.has_all_words, self.coverage

    def take(self, places: Any) -> "Matches":
        """Return the matches at some places, or of a slice."""
        return Matches(*(array[places] for array in self._arrays))

    def __len__(self) -> int:
        return len(self.keys)

    def __iter__(self) -> Iterator[Match]:
        return map(Match._make, zip(*(array.tolist() for array in self._arrays), strict=True))


NO_MATCHES = Matches.of(())


class Compared(Struct, frozen=True):
    """
    The codes of memories and their similarities to a vector, each by itself or by its nearest part.

    A similarity is no number, and a code all zeros, where there is no vector. `parts` are the numbers of the parts that
    are nearer than the whole, by the places of their memories.
    """

    codes: Codes | None
    similarities: NDArray[np.float64]
    parts: Mapping[int, int] = field(default_factory=dict)


Compare = Callable[[Keys], Compared]


class VectorMatches(Struct, frozen=True):
    """
    The matches of the vector leg. `unembedded` of the `total` memories have no vector yet. `unfiltered` are the matches
    without the filter. Vectors in memory can `compare` other memories, given by ascending keys, with the same question.
    """

    matches: Matches
    unembedded: int = 0
    total: int = 0
    unfiltered: Matches = NO_MATCHES
    compare: Compare | None = None


class KeywordMatches(Struct, frozen=True):
    """
    The matches of the keyword leg, and the words of the query that may be in no memory. `all_keys` are the keys of
    every memory with one of the words, where the leg read them all. An index `in_memory` answers in a millisecond.
    """

    matches: Matches
    unknown_words: tuple[str, ...] = ()
    all_keys: Sequence[int] | None = None
    in_memory: bool = False
