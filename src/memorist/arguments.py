"""
Arguments as callers give them, each declared once: its type, its limits and its meaning.

The signatures of `Memorist` are made of these. What HTTP, the clients and the command line offer follows from them. The
limits are those of one request to a server; where a call in the same process may ask for more, the method checks it.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, TypedDict

from msgspec import Struct

from memorist import validation
from memorist.errors import InvalidInput
from memorist.metadata_filter import Condition, parse_metadata_filter
from memorist.profiles import PROFILES
from memorist.profiles.profile import ProfileOptions
from memorist.records import (
    DETAILS,
    FACETS,
    IF_EXISTS,
    MODES,
    NEAR_ACTIONS,
    RECORD_MODES,
    SECTORS,
    TIERS,
)
from memorist.schemas import Meta
from memorist.validation import MAX_ID_CHARACTERS, MAX_QUERY_CHARACTERS

MAX_PAGE = 1000  # items that a server answers with at once
DEFAULT_TOOL_HITS = 5  # of a search by a model, which asks again where they are not enough
MAX_COMPARED = 6  # profiles and lenses for one question
MAX_NEIGHBOURS = 25  # of one memory in a graph


TimeLike = datetime | str | float  # a time as callers may give it

# Of several types, the first is the usual one: a model is told no other.
Names = str | Sequence[str]  # one, or several of which any will do
Tags = Sequence[str] | str
Text = Annotated[str, Meta(min_length=1)]
QueryText = Annotated[
    str, Meta('Plain words; "phrases" and identifiers match as written', max_length=MAX_QUERY_CHARACTERS)
]
MemoryId = Annotated[str, Meta("Id, or its last 6+ characters")]
Time = Annotated[TimeLike, Meta('ISO 8601, seconds since 1970, or a phrase such as "3 weeks ago"')]
AsOf = Annotated[TimeLike, Meta("As things stood at this time")]
Share = Annotated[float, Meta("The share by which it rises or falls", minimum=0, maximum=1)]
Limit = Annotated[int, Meta("How many", minimum=1, maximum=MAX_PAGE)]
Cursor = Annotated[str, Meta("The cursor that the page before gave")]
Mode = Annotated[str, Meta("Which legs search", enum=MODES)]
Detail = Annotated[str, Meta("How much of each memory to show", enum=DETAILS)]
ProfileName = Annotated[str, Meta("How to rank", enum=tuple(PROFILES))]
RecordMode = Annotated[str, Meta("What to record about this search", enum=RECORD_MODES)]
FacetNames = Sequence[Annotated[str, Meta(enum=FACETS)]]
OwnId = Annotated[str, Meta("An id of your own, of any characters", min_length=1, max_length=MAX_ID_CHARACTERS)]
_METADATA_CONDITIONS = 'Conditions, such as {"user": "anna", "price": {"$lt": 5}}'
MetadataFilter = Annotated[Mapping[str, Any], Meta(_METADATA_CONDITIONS)]
Budget = Annotated[int, Meta("How many tokens at most", minimum=64, maximum=1_000_000)]
FilePath = Annotated[str, Meta("A path such as /notes/today.md", min_length=1)]
Allowances = Annotated[Sequence[str], Meta("Texts that are no secrets")]
Version = Annotated[Names, Meta("The version of the memory that was read: another one is not changed")]


def _names(what: str) -> Callable[[object], tuple[str, ...]]:
    return validation.any_of(what, lambda value: validation.required_name(value, what))


def _choices(what: str, allowed: Sequence[str]) -> Callable[[object], tuple[str, ...]]:
    return validation.any_of(what, lambda value: validation.choice(value, allowed, what))


def _moment(what: str) -> Callable[[object], datetime]:
    return lambda value: validation.moment(value, what)


def _fraction(what: str) -> Callable[[object], float]:
    return lambda value: validation.number(value, what, 0, 1)


def _flag(what: str) -> Callable[[object], bool]:
    return lambda value: validation.flag(value, what)


class Filters(TypedDict, total=False):
    """The filters of searches and lists, each with its check. None leaves one open."""

    project: Annotated[Names | None, Meta("Only of this project", check=_names("project"), hides="in another project")]
    sector: Annotated[
        Names | None, Meta("Only of this sector", check=_choices("sector", SECTORS), hides="in another sector")
    ]
    tier: Annotated[Names | None, Meta("Only of this tier", check=_choices("tier", TIERS), hides="in another tier")]
    kind: Annotated[Names | None, Meta("Only of this kind", check=_names("kind"), hides="of another kind")]
    tags: Annotated[
        Tags | None,
        Meta(
            "Only with this tag; of several, with all of them", check=validation.tag_names, hides="without all the tags"
        ),
    ]
    source: Annotated[Names | None, Meta("Only from this source", check=_names("source"), hides="from another source")]
    since: Annotated[
        TimeLike | None,
        Meta("Only from this time on", check=_moment("since"), hides="older (--since)"),
    ]
    until: Annotated[TimeLike | None, Meta("Only before this time", check=_moment("until"), hides="newer (--until)")]
    min_salience: Annotated[
        float | None, Meta("Only with at least this salience", minimum=0, maximum=1, check=_fraction("min_salience"))
    ]
    session: Annotated[
        str | None,
        Meta("Only made or used in this session", check=validation.session_id, hides="not in that session"),
    ]
    fact_kind: Annotated[
        Names | None,
        Meta("Only with a fact of this kind", check=_names("fact_kind"), hides="without a fact of that kind"),
    ]
    month: Annotated[
        Names | None,
        Meta(
            "Only from this local month, such as 2026-03",
            check=validation.any_of("month", validation.month),
            hides="from another month",
        ),
    ]
    pinned: Annotated[bool | None, Meta("Only pinned memories", check=_flag("pinned"), hides="not pinned")]
    recalled: Annotated[
        bool | None,
        Meta("Only what a recorded search has found, or none has", check=_flag("recalled"), hides="already recalled"),
    ]
    include_global: Annotated[
        bool | None,
        Meta("Beside those of a project, also memories that hold everywhere", check=_flag("include_global")),
    ]
    metadata: Annotated[
        Mapping[str, Any] | None,
        Meta(_METADATA_CONDITIONS, check=parse_metadata_filter, hides="with other metadata"),
    ]
    as_of: Annotated[
        TimeLike | None,
        Meta("As things stood at this time", check=validation.as_of, hides="from after that time (--as-of)"),
    ]


FILTERS: Mapping[str, Meta] = {name: hint.__metadata__[0] for name, hint in Filters.__annotations__.items()}


class Filter(Struct, frozen=True):
    """
    The conditions that memories must meet to be found.

    Any value of a field matches, except for `tags`, of which all must be there. `since` is inclusive, `until`
    exclusive. `month` is a local one, as 2026-03. `metadata` is a condition on its values. `superseded` lets superseded
    memories pass. With `include_global`, memories of no project and of the tier `global` pass, whatever the `project`.
    With `as_of`, every condition holds for that time. If it is `restricted`, what the one `project` does not contain
    has no influence on an answer at all: neither on a score nor on a count.
    """

    project: tuple[str, ...] = ()
    sector: tuple[str, ...] = ()
    tier: tuple[str, ...] = ()
    kind: tuple[str, ...] = ()
    source: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    since: datetime | None = None
    until: datetime | None = None
    min_salience: float | None = None
    session: str | None = None
    fact_kind: tuple[str, ...] = ()
    month: tuple[str, ...] = ()
    pinned: bool | None = None
    recalled: bool | None = None
    metadata: Condition | None = None
    superseded: bool = True
    include_global: bool = False
    as_of: datetime | None = None
    restricted: bool = False
    hide_expired: bool = False  # set by the store, where a memory has expired

    @property
    def restriction(self) -> "Filter":
        """The filter for all that the caller may know of."""
        return Filter(project=self.project, restricted=True) if self.restricted else NO_FILTER


NO_FILTER = Filter()


def check_filters(given: Mapping[str, Any], *, include_superseded: object = True) -> Filter:
    """Return the filters of a search or a listing, by name, in their one form; None means not given."""
    for field in given:
        if field not in FILTERS:
            raise InvalidInput(f"there is no filter {field!r}; there are: {', '.join(FILTERS)}")
    checked = {
        field: check(value)
        for field, value in given.items()
        if value is not None and (check := FILTERS[field].check) is not None
    }
    if not checked.get("project"):
        checked.pop("include_global", None)  # without a project, nothing is left out
    return Filter(**checked, superseded=validation.flag(include_superseded, "include_superseded"))


class SearchOptions(Filters, ProfileOptions, total=False):
    """The filters and the options of one search."""


class ComparedOptions(SearchOptions, total=False):
    """The arguments of a search that is made several times."""

    limit: Limit | None
    offset: int
    mode: Mode
    now: Time | None
    include_superseded: bool
    include_facts: bool
    include_documents: bool
    detail: Detail
    record: RecordMode | None
    record_session: str | None
    facets: FacetNames
    explain: bool


class DocumentFilters(ProfileOptions, total=False):
    """The filters of indexed files, and the options of a search for them."""

    project: Annotated[Names | None, Meta("Only of this project")]
    sector: Annotated[Names | None, Meta("Only of this sector")]
    tags: Annotated[Tags | None, Meta("Only with this tag; of several, with all of them")]
    since: Annotated[TimeLike | None, Meta("Only what was written from this time on")]
    until: Annotated[TimeLike | None, Meta("Only what was written before this time")]


class FactFields(TypedDict, total=False):
    """The fields of a fact beside its text."""

    kind: Annotated[
        str | None, Meta("Its kind: identity, decision or a word of your own; it decides how fast it fades")
    ]
    confidence: Annotated[float | None, Meta("How certain it is, if not 1", minimum=0, maximum=1)]
    decay_rate: Annotated[
        float | None, Meta("The share of its confidence lost each day, instead of the rate of its kind", minimum=0)
    ]
    subject: Annotated[str | None, Meta("Who or what it is about")]
    predicate: Annotated[str | None, Meta("What it says about the subject")]
    object: Annotated[str | None, Meta("The other thing it involves")]
    reinforced_at: Annotated[TimeLike | None, Meta("From when on its confidence decays, if not from now on")]


class FactMapping(FactFields, total=False):
    """A fact as a mapping."""

    text: Text


class MemoryFields(TypedDict, total=False):
    """The fields that a new memory may have beside its text. None leaves one open."""

    project: Annotated[str | None, Meta("The project it belongs to")]
    sector: Annotated[str | None, Meta("The part of memory it belongs to", enum=SECTORS)]
    tier: Annotated[str | None, Meta("How far it holds", enum=TIERS)]
    kind: Annotated[str | None, Meta("What it is in a word: decision, bug, preference")]
    tags: Annotated[Tags | None, Meta("A tag")]
    salience: Annotated[float | None, Meta("How much it matters", minimum=0, maximum=1)]
    source: Annotated[str | None, Meta("Where it comes from")]
    title: Annotated[str | None, Meta("A title")]
    summary: Annotated[str | None, Meta("One line, shown in indexes")]
    metadata: Annotated[Mapping[str, Any] | None, Meta("A JSON object to store with it")]
    created_at: Annotated[TimeLike | None, Meta("When it happened, if not now")]
    expires_at: Annotated[TimeLike | None, Meta("From when on nothing finds it any more")]
    id: Annotated[OwnId | None, Meta("An id of your own; what has it already is replaced")]
    if_exists: Annotated[str | None, Meta("If a memory has that id already", enum=IF_EXISTS)]
    session: Annotated[str | None, Meta("The open session it happens in")]
    facts: Annotated[Sequence[str | FactMapping] | str | FactMapping | None, Meta("A fact that it states")]


class NewMemory(MemoryFields, total=False):
    """The fields of a new memory, and what happens where an older one says almost the same."""

    on_near_duplicate: Annotated[str | None, Meta("If an older memory says almost the same", enum=NEAR_ACTIONS)]


class MemoryItem(MemoryFields, total=False):
    """A new memory as a mapping."""

    content: Annotated[str, Meta("What to remember", min_length=1)]


class MemoryChanges(TypedDict, total=False):
    """The fields of a memory that can be changed."""

    content: Annotated[str, Meta("What to remember", min_length=1)]
    project: Annotated[str | None, Meta("The project it belongs to", nullable=True)]
    sector: Annotated[str, Meta("The part of memory it belongs to", enum=SECTORS)]
    tier: Annotated[str, Meta("How far it holds", enum=TIERS)]
    kind: Annotated[str | None, Meta("What it is, in a word of your own: decision, bug, preference", nullable=True)]
    tags: Annotated[Tags | None, Meta("A tag", nullable=True)]
    salience: Annotated[float, Meta("How much it matters", minimum=0, maximum=1)]
    source: Annotated[str | None, Meta("Where it comes from", nullable=True)]
    title: Annotated[str | None, Meta("A title", nullable=True)]
    summary: Annotated[str | None, Meta("One line, shown in indexes", nullable=True)]
    metadata: Annotated[Mapping[str, Any] | None, Meta("A JSON object to store with it", nullable=True)]
    expires_at: Annotated[TimeLike | None, Meta("From when on nothing finds it any more", nullable=True)]
