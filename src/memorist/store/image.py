"""
The image of a namespace: its memories, and the chunks of its files, as arrays in memory with a row for each.

It holds what filters and ranking look at, and an inverted index of the words. It is derived from the database, never
the truth, and can be dropped at any time. An image stands for one moment: what is written later makes another one,
which shares all arrays that have not changed.
"""

import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, overload

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace
from numpy.typing import NDArray

from memorist.arguments import NO_FILTER, Filter
from memorist.records import ASSISTANT, GLOBAL, TURN
from memorist.store.documents import CHUNK_SUFFIX
from memorist.store.filters import MAX_SCOPE_KEYS, month_ranges, restricts, to_micros
from memorist.store.inverted_index import IndexedText, InvertedIndex
from memorist.store.key_set import Keys
from memorist.store.records import Scope
from memorist.store.rows import ORIGIN, decode_tags
from memorist.store.word_matching import INDEX_COLUMNS, LENGTH_SAMPLE
from memorist.text.tokenizer import list_stems

Flags = NDArray[np.bool_]
Integers = NDArray[np.int64]
Rows = NDArray[np.int32]

TIMES = ("created_at", "updated_at", "recorded_at", "accessed_at", "reinforced_at", "expires_at")
NEVER = np.iinfo(np.int64).min  # a time that is not set
_NAMED = ("project", "sector", "tier", "kind", "source", "tags")
_FLAGS = ("superseded", "pinned", "recalled", "by_assistant")
NO_SESSION = NO_POSITION = -1
# The conditions of a filter that the arrays can tell; any other one is left to the database.
_TESTED_FIELDS = frozenset(
    "project sector tier kind source tags since until min_salience month pinned recalled superseded include_global"
    " restricted hide_expired".split()
)
_TYPES: Mapping[str, Any] = {
    **dict.fromkeys(TIMES, np.int64),
    "salience": np.float64,
    **dict.fromkeys(_NAMED, np.int32),
    **dict.fromkeys(_FLAGS, np.bool_),
    **dict.fromkeys(("sessions", "positions", "lengths"), np.int32),
}
_MAX_COUNTS = 20_000  # remembered
_MAX_SCOPES, _MAX_SCOPE_ROWS = 1000, 10_000_000  # remembered: their number, and the rows of all of them together
_TEXTS_A_TURN = 4  # tokenized before other threads may go on
_ROLE = re.compile(r'"role"\s*:\s*"(\w+)"')
_SAID_BY = re.compile(r'"(?:role|speaker)"\s*:\s*"')

# Of a memory `m`, for `RowChange`. The texts are those of the full-text indexes.
IMAGE_POSITION = ORIGIN.format("concat(u.position, ' ', u.sid)")
IMAGE_COLUMNS = f"""
    m.namespace, {", ".join(f"m.{name}" for name in INDEX_COLUMNS)}, {", ".join(f"m.{name}" for name in TIMES)},
    m.salience, {", ".join(f"m.{name}" for name in ("project", "sector", "tier", "kind"))},
    m.valid_until is not null, m.pinned, m.access_count > 0, length(m.content), m.metadata, ({IMAGE_POSITION})
"""


class RowChange(NamedTuple):
    """
    A memory that is new or has changed: its key, its text only where that has changed too, and its columns.

    `seq` is its place in the log, and None for a new one. There are no columns where it is gone.
    """

    seq: int | None
    has_text: bool
    key: int
    columns: Sequence[Any] | None


class Names:
    """The texts of a column as numbers; 0 is that of no text. They are only ever added to."""

    def __init__(self) -> None:
        self.texts: list[str | None] = [None]
        self._numbers: dict[str | None, int] = {None: 0}

    def number(self, text: str | None) -> int:
        """Return the number of a text, which is new if the text is."""
        number = self._numbers.get(text)
        if number is None:
            number = self._numbers[text] = len(self.texts)
            self.texts.append(text)
        return number

    def find(self, texts: Iterable[str | None]) -> list[int]:
        """Return the numbers of those texts that are known."""
        return [self._numbers[text] for text in texts if text in self._numbers]


class TagNames(Names):
    """Lists of tags, as they are stored, as numbers."""

    def __init__(self) -> None:
        super().__init__()
        self._with_tag: dict[str, list[int]] = {}

    def number(self, text: str | None) -> int:
        before = len(self.texts)
        number = super().number(text)
        if number == before and text is not None:
            for tag in decode_tags(text):
                self._with_tag.setdefault(tag, []).append(number)
        return number

    def find_with(self, tag: str) -> list[int]:
        """Return the numbers of the lists that have a tag."""
        return self._with_tag.get(tag, [])


class NamedValues(Sequence[Any]):
    """A column of texts, or of what is made of them, given by their numbers."""

    def __init__(self, numbers: NDArray[np.int32], texts: Sequence[str | None], decode: Callable[[Any], Any]) -> None:
        self._numbers, self._texts, self._decode = numbers.tolist(), texts, decode

    def __len__(self) -> int:
        return len(self._numbers)

    @overload
    def __getitem__(self, place: int) -> Any: ...
    @overload
    def __getitem__(self, place: slice) -> list[Any]: ...
    def __getitem__(self, place: int | slice) -> Any:
        if isinstance(place, slice):
            return [self._decode(self._texts[number]) for number in self._numbers[place]]
        return self._decode(self._texts[self._numbers[place]])

    def __iter__(self) -> Iterator[Any]:
        return (self._decode(self._texts[number]) for number in self._numbers)


class Population(Struct, frozen=True, eq=False):
    """The rows whose numbers count here: which they are (None: all), how many, and their mean number of words."""

    name: Any
    rows: Flags | None
    count: int
    mean_words: float


class Image(Struct, frozen=True, eq=False, weakref=True):
    """
    The rows of a namespace and of its files as of one moment.

    The first `index.count` rows of all arrays count; those after them are room for the next image. Files are those of
    the `owners` 1. `has_strangers` tells if the database has other namespaces, whose words an index on disk counts;
    with `counts_apart`, a namespace counts its own words alone, without those of its files.

    The moment is that after the change `logged` and the memory `newest`, when the database had the `mark`.
    """

    namespace: str
    index: InvertedIndex
    columns: Mapping[str, NDArray[Any]]
    names: Mapping[str, Names]
    counts_apart: bool = False
    has_strangers: bool = False
    logged: int = 0
    newest: int = 0
    mark: str | None = None
    _counts: dict[Any, int] = field(default_factory=dict)  # of rows with words that were asked for
    _own: dict[str, Flags] = field(default_factory=dict)
    _expiring: dict[str, bool] = field(default_factory=dict)
    _populations: dict[Any, Population] = field(default_factory=dict)
    _scopes: dict[Any, Scope] = field(default_factory=dict)
    _listed: dict[Any, Scope] = field(default_factory=dict)  # by the database, until anything is written

    @classmethod
    def empty(cls, namespace: str, *, logged: int, counts_apart: bool) -> "Image":
        columns = {name: np.empty(0, type) for name, type in _TYPES.items()}
        names = {name: TagNames() if name == "tags" else Names() for name in _NAMED}
        index = InvertedIndex.empty(len(INDEX_COLUMNS))
        return cls(namespace, index, columns, names, counts_apart=counts_apart, logged=logged)

    @property
    def nbytes(self) -> int:
        return self.index.nbytes + sum(column.nbytes for column in self.columns.values())

    @property
    def alive(self) -> Flags:
        return self.index.alive[: self.index.count]

    @property
    def has_files(self) -> bool:
        return bool(self.list_own(self.namespace + CHUNK_SUFFIX).any())

    def list_own(self, namespace: str) -> Flags:
        """Return which rows are live ones of a namespace."""
        if namespace not in self._own:
            owners = self.index.owners[: self.index.count]
            self._own[namespace] = self.alive & (owners == self.number_owner(namespace))
        return self._own[namespace]

    def number_owner(self, namespace: str) -> int:
        return int(namespace != self.namespace)

    def column(self, name: str) -> NDArray[Any]:
        return self.columns[name][: self.index.count]

    # What is written

    def take_in(self, changes: Sequence[RowChange], *, beside_others: bool = False) -> "Image":
        """
        Return the image with these changes.

        Work that is done `beside_others` may take longer, and leaves the interpreter to other threads in between.
        """
        latest = {change.key: change for change in changes}  # each has what the memory is now
        with_text = {change.key for change in changes if change.has_text}
        removed = [key for key in with_text if latest[key].seq is not None]
        added = sorted(key for key in with_text if latest[key].columns is not None)
        index, start = self.index, self.index.count
        index = index.with_changes(removed, self._tokenize(latest, added, beside_others), merge_all=beside_others)
        columns = dict(self.columns)
        if added:
            _append(columns, start, len(index.keys), _to_columns([latest[key].columns for key in added], self.names))
        kept = np.array(sorted(latest.keys() - with_text), np.int64)
        if len(kept) and len(rows := index.find_rows(kept)):
            keys = index.keys[rows].tolist()
            _overwrite(columns, rows, _to_columns([latest[key].columns for key in keys], self.names))
        return Image(
            self.namespace, index, columns, self.names,
            counts_apart=self.counts_apart, has_strangers=self.has_strangers, logged=self.logged, newest=self.newest,
        )  # fmt: skip

    def _tokenize(
        self, changes: Mapping[int, RowChange], keys: Sequence[int], beside_others: bool
    ) -> list[IndexedText]:
        documents = []
        for number, key in enumerate(keys):
            if beside_others and number % _TEXTS_A_TURN == 0:
                time.sleep(0)
            row = changes[key].columns
            assert row is not None
            words = [list_stems(text) if text else () for text in row[1 : 1 + len(INDEX_COLUMNS)]]
            documents.append(IndexedText(key, self.number_owner(row[0]), words))
        return documents

    def renew(self, *, has_strangers: bool, logged: int, newest: int) -> "Image":
        """Return the image as of a later moment, also where what was written is nothing that it holds."""
        renewed = replace(self, logged=logged, newest=newest, _listed={})
        if has_strangers == self.has_strangers:
            return renewed
        return replace(renewed, has_strangers=has_strangers, _counts={}, _populations={})

    # Numbers of words

    def count_rows(self, words: tuple[str, ...], population: Population) -> int:
        """Return the number of rows of a population with a word or a phrase."""
        key = (population.name, words)
        count = self._counts.get(key)
        if count is None:
            if len(self._counts) >= _MAX_COUNTS:
                self._counts.clear()
            rows = self.index.find(words).distinct_rows
            count = len(rows) if population.rows is None else int(np.count_nonzero(population.rows[rows]))
            self._counts[key] = count
        return count

    def find_population(self, namespace: str, project: str | None = None) -> Population:
        """
        Return the rows whose numbers count in a namespace: its own, or those of one project.

        Those of its files count as well, unless they are counted apart.
        """
        name = (namespace if self.counts_apart or project is not None else None, project)
        if (known := self._populations.get(name)) is not None:
            return known
        rows = self.alive if name[0] is None else self.list_own(namespace)
        if project is not None:
            rows = rows & self._is_one_of("project", (project,))
        count, mean = self.index.live, self.index.mean_words
        is_sampled = project is not None or (self.has_strangers and not self.counts_apart)
        if is_sampled or name[0] is not None:
            places = np.flatnonzero(rows)
            # As the database computes it: an index on disk counts the words of strangers as well.
            newest = places[np.argsort(self.index.keys[places])[-LENGTH_SAMPLE:]] if is_sampled else places
            count = len(places)
            mean = int(self.index.lengths[newest].sum()) / len(newest) if len(newest) else 1.0
        population = Population(name, None if count == self.index.live else rows, count, mean or 1.0)
        self._populations[name] = population
        return population

    # Filters

    def find_scope(self, namespace: str, filter: Filter) -> Scope | None:
        """Return what passes a filter; None if the database has to tell."""
        if filter.as_of is not None:
            return None
        key = (namespace, filter, time.tzname if filter.month else None)
        if (known := self._scopes.get(key) or self._listed.get(key)) is not None:
            return replace(known, image=self)
        asked = (name for name in filter.__struct_fields__ if name not in _TESTED_FIELDS)
        if any(getattr(filter, name) != getattr(NO_FILTER, name, None) for name in asked):
            return None
        own, expired = self.list_own(namespace), self._list_expired()
        settled = replace(
            filter,
            superseded=filter.superseded or not (own & self.column("superseded")).any(),
            hide_expired=expired is not None and bool((own & expired).any()),
        )
        if settled == NO_FILTER:
            scope = Scope(settled)
        else:
            passing = own & self._test(settled)
            if expired is not None:
                passing &= ~expired
            scope = self._make_scope(namespace, settled, passing)
        if expired is None:  # otherwise it depends on the time, too
            _remember(self._scopes, key, scope, self.index.count)
        return replace(scope, image=self)

    def complete_scope(self, namespace: str, filter: Filter, scope: Scope) -> Scope:
        """Return a scope whose keys the database has listed as one of this image."""
        index = self.index
        listed = scope.keys if scope.excluded is None else scope.excluded
        assert listed is not None, "the scope is listed"
        rows = index.find_rows(listed)
        passing = np.zeros(index.count, np.bool_)
        passing[rows] = True
        passing = self.list_own(namespace) & (passing if scope.excluded is None else ~passing)
        completed = self._make_scope(namespace, scope.filter, passing)
        if self._list_expired() is None:
            _remember(self._listed, (namespace, filter, None), completed, index.count)
        return replace(completed, image=self)

    def _make_scope(self, namespace: str, filter: Filter, passing: Flags) -> Scope:
        """Return a scope without the image: those that are remembered must not keep it alive."""
        own = self.list_own(namespace)
        count, total = int(np.count_nonzero(passing)), int(np.count_nonzero(own))
        if restricts(filter) and (count <= MAX_SCOPE_KEYS or 2 * count <= total):
            return Scope(filter, keys=self.list_keys(passing), passing=passing)
        return Scope(filter, excluded=self.list_keys(own & ~passing), passing=passing)

    def list_keys(self, rows: Flags) -> Keys:
        """Return the keys of rows, ascending."""
        keys: Keys = self.index.keys[: self.index.count][rows]
        return keys if self.index.sorted_count == self.index.count else np.sort(keys)

    def _list_expired(self) -> Flags | None:
        """Return which rows have expired by now; None where none ever expires."""
        expires = self.column("expires_at")
        if not self._expiring:
            self._expiring["any"] = bool((self.alive & (expires != NEVER)).any())
        if not self._expiring["any"]:
            return None
        expired: Flags = (expires != NEVER) & (expires <= int(time.time() * 1e6))
        return expired

    def _test(self, filter: Filter) -> Flags:
        """Return which rows meet the conditions of a filter."""
        tests: list[Flags] = []
        for name in ("project", "sector", "tier", "kind", "source"):
            if accepted := getattr(filter, name):
                tests.append(self._is_one_of(name, accepted))
        if filter.project and filter.include_global:
            tests[0] = tests[0] | (self.column("project") == 0) | self._is_one_of("tier", (GLOBAL,))
        names = self.names["tags"]
        assert isinstance(names, TagNames)
        tests += [_is_among(self.column("tags"), names.find_with(tag)) for tag in filter.tags]
        created = self.column("created_at")
        if filter.since is not None:
            tests.append(created >= to_micros(filter.since))
        if filter.until is not None:
            tests.append(created < to_micros(filter.until))
        if filter.month:
            ranges = month_ranges(filter.month, time.tzname)
            tests.append(np.logical_or.reduce([(created >= start) & (created < end) for start, end in ranges]))
        if filter.min_salience is not None:
            tests.append(self.column("salience") >= filter.min_salience)
        if filter.pinned is not None:
            tests.append(self.column("pinned") == filter.pinned)
        if filter.recalled is not None:
            tests.append(self.column("recalled") == filter.recalled)
        if not filter.superseded:
            tests.append(~self.column("superseded"))
        return np.logical_and.reduce(tests) if tests else self.alive

    def _is_one_of(self, name: str, accepted: Collection[str]) -> Flags:
        return _is_among(self.column(name), self.names[name].find(accepted))

    # Columns of candidates

    def times(self, name: str, rows: Rows) -> NDArray[np.float64]:
        """Return times of rows in seconds of the epoch; no number where there is none."""
        micros = self.columns[name][rows]
        seconds: NDArray[np.float64] = micros / 1e6
        return np.where(micros == NEVER, np.nan, seconds)

    def values(self, name: str, rows: Rows) -> NamedValues:
        """Return the texts of rows, or their tags."""
        decode = _decode_tag_list if name == "tags" else _as_it_is
        return NamedValues(self.columns[name][rows], self.names[name].texts, decode)


def _remember(scopes: dict[Any, Scope], key: Any, scope: Scope, rows: int) -> None:
    if len(scopes) >= min(_MAX_SCOPES, 1 + _MAX_SCOPE_ROWS // max(1, rows)):
        scopes.clear()
    scopes[key] = scope


def _as_it_is(text: str | None) -> str | None:
    return text


def _decode_tag_list(text: str | None) -> tuple[str, ...]:
    return () if text is None else decode_tags(text)


def _is_among(numbers: NDArray[np.int32], wanted: Sequence[int]) -> Flags:
    among: Flags = numbers == wanted[0] if len(wanted) == 1 else np.isin(numbers, wanted)
    return among


def _to_columns(rows: Sequence[Sequence[Any] | None], names: Mapping[str, Names]) -> dict[str, NDArray[Any]]:
    """Return the columns of rows that `IMAGE_COLUMNS` has selected."""
    texts = dict(zip(INDEX_COLUMNS, range(1, 1 + len(INDEX_COLUMNS)), strict=True))
    by_column = [*zip(*(row for row in rows if row is not None), strict=True)]
    rest = iter(by_column[1 + len(INDEX_COLUMNS) :])
    found: dict[str, Any] = {name: [NEVER if moment is None else moment for moment in next(rest)] for name in TIMES}
    found["salience"] = next(rest)
    named = {name: next(rest) for name in ("project", "sector", "tier", "kind")}
    named |= {name: by_column[texts[name]] for name in ("source", "tags")}
    found |= {name: [*map(names[name].number, values)] for name, values in named.items()}
    found |= {name: next(rest) for name in ("superseded", "pinned", "recalled", "lengths")}
    metadata, places = rest
    turns = list_places_of_turns(places, named["kind"], metadata)
    found["sessions"], found["positions"] = read_places(turns)
    found["by_assistant"] = [*map(is_of_assistant, turns, metadata)]
    return {name: np.array(values, _TYPES[name]) for name, values in found.items()}


def list_places_of_turns(
    places: Sequence[str | None], kinds: Sequence[str | None], metadata: Sequence[str]
) -> list[str | None]:
    """
    Return the places in sessions of what was said there; None for a note that was made in a session.

    A turn is of that kind, or its metadata name who spoke, at any depth: for many rows, parsing them takes too long.
    """
    return [
        place if place is not None and (kind == TURN or _SAID_BY.search(about)) else None
        for place, kind, about in zip(places, kinds, metadata, strict=True)
    ]


def read_places(places: Sequence[str | None]) -> tuple[list[int], list[int]]:
    """Return the sessions of places, by their keys, and the positions there."""
    sessions, positions = [NO_SESSION] * len(places), [NO_POSITION] * len(places)
    for at, place in enumerate(places):
        if place is not None:
            position, _, session = place.partition(" ")
            sessions[at] = int(session)
            if position:
                positions[at] = int(position)
    return sessions, positions


def is_of_assistant(place: str | None, metadata: str) -> bool:
    """Tell if a turn was said by the assistant."""
    role = None if place is None else _ROLE.search(metadata)
    return role is not None and role[1] == ASSISTANT


def _append(columns: dict[str, NDArray[Any]], start: int, room: int, added: Mapping[str, NDArray[Any]]) -> None:
    """Write new rows behind those that count, in arrays with as much room as those of the index."""
    for name, values in added.items():
        column = columns[name]
        if len(column) < start + len(values):
            column = np.empty(max(room, start + len(values)), column.dtype)
            column[:start] = columns[name][:start]
            columns[name] = column
        column[start : start + len(values)] = values


def _overwrite(columns: dict[str, NDArray[Any]], rows: Rows, changed: Mapping[str, NDArray[Any]]) -> None:
    """Replace the columns in which rows have changed: a search that goes on keeps those that it began with."""
    for name, values in changed.items():
        if not np.array_equal(columns[name][rows], values, equal_nan=name == "salience"):
            columns[name] = columns[name].copy()
            columns[name][rows] = values
