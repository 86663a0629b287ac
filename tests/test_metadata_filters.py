"""Filters by metadata: exact in every call that takes filters, on both databases, now and in the past."""

import operator
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import memorist
from conftest import HashingEmbedder
from memorist import InvalidInput, Memorist

COMPARE = {"$gt": operator.gt, "$gte": operator.ge, "$lt": operator.lt, "$lte": operator.le}
KEYS = ["user", "a", "b.c", "q\"uo'te", "$d", "back\\slash", "日本", "", "a b", "--", "x]"]


def passes(filter: Mapping[str, Any], value: Any) -> bool:
    """Say what the documentation says of a filter, straight from a mapping."""
    for key, wanted in filter.items():
        if key == "$and" and not all(passes(one, value) for one in wanted):
            return False
        if key == "$or" and not any(passes(one, value) for one in wanted):
            return False
        if key == "$not" and passes(wanted, value):
            return False
        if not key.startswith("$") and not field_passes(wanted, values_at(split(key), value)):
            return False
    return True


def split(path: str) -> list[str]:
    return [key.replace("\0", ".").replace("\1", "\\").replace("\2", "$") for key in
            path.replace("\\\\", "\1").replace("\\.", "\0").replace("\\$", "\2").split(".")]  # fmt: skip


def values_at(path: list[str], value: Any) -> list[Any]:
    found = [value]
    for key in path:
        objects = [item for one in found for item in (one if isinstance(one, list) else [one])]
        found = [one[key] for one in objects if isinstance(one, dict) and key in one]
    return found


def field_passes(wanted: Any, found: list[Any]) -> bool:
    if not isinstance(wanted, dict):
        return field_passes({"$eq": wanted}, found)
    if not any(key.startswith("$") for key in wanted):
        return all(
            field_passes(inner, [value for one in found for value in values_at(split(key), one)])
            for key, inner in wanted.items()
        )
    return all(OPERATORS[name](operand, found) for name, operand in wanted.items())


def kind(value: Any) -> str:
    return "number" if isinstance(value, int | float) and not isinstance(value, bool) else type(value).__name__


def some(found: list[Any], test: Any) -> bool:
    return any(test(item) for one in found for item in (one if isinstance(one, list) else [one]))


def equals(operand: Any, found: list[Any]) -> bool:
    return some(found, lambda item: kind(item) == kind(operand) and item == operand)


OPERATORS: dict[str, Any] = {
    "$eq": equals,
    "$ne": lambda operand, found: not equals(operand, found),
    "$in": lambda operand, found: any(equals(one, found) for one in operand),
    "$nin": lambda operand, found: not any(equals(one, found) for one in operand),
    "$exists": lambda operand, found: bool(found) is operand,
    "$not": lambda operand, found: not field_passes(operand, found),
    **{
        name: lambda operand, found, compare=compare: some(
            found, lambda item: kind(item) == kind(operand) and compare(item, operand)
        )
        for name, compare in COMPARE.items()
    },
}

texts = st.sampled_from(
    ["", "anna", "ben", "Anna", "1", "true", "é", "𝔘", "\ue000", "'", "x" * 300, "\ufffd", "a\\u0000"]
)
numbers = st.sampled_from([0, 1, -1, 2, 1.0, 0.5, 1e300, -0.25, 2**53 + 1, 2**53, 10**18])
scalars = st.one_of(texts, numbers, st.booleans(), st.none())
documents = st.dictionaries(
    st.sampled_from(KEYS),
    st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=3),
        max_leaves=6,
    ),
    max_size=4,
)


def escape(key: str) -> str:
    return key.replace("\\", "\\\\").replace(".", "\\.").replace("$", "\\$")


paths = st.lists(st.sampled_from(KEYS), min_size=1, max_size=3).map(lambda keys: ".".join(map(escape, keys)))
operations = st.one_of(
    st.tuples(st.sampled_from(["$eq", "$ne"]), scalars),
    st.tuples(st.sampled_from(list(COMPARE)), texts | numbers),
    st.tuples(st.sampled_from(["$in", "$nin"]), st.lists(scalars, max_size=4)),
    st.tuples(st.just("$exists"), st.booleans()),
)
conditions = st.one_of(
    scalars,
    st.lists(operations, min_size=1, max_size=2).map(dict),
    operations.map(lambda one: {"$not": dict([one])}),
)
filters = st.recursive(
    st.dictionaries(paths, conditions | st.dictionaries(paths, conditions, min_size=1, max_size=2), max_size=2),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: {"$and": parts}),
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: {"$or": parts}),
        inner.map(lambda one: {"$not": one}),
    ),
    max_leaves=5,
)  # fmt: skip


@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(stored=st.lists(documents, min_size=1, max_size=8), given=st.lists(filters, min_size=3, max_size=6))
def test_every_call_agrees_with_what_the_documentation_says(
    hashed: Memorist, stored: list[dict[str, Any]], given: list[dict[str, Any]]
) -> None:
    check_every_call(hashed, stored, given)


@settings(max_examples=100, suppress_health_check=list(HealthCheck))
@given(stored=st.lists(documents, min_size=1, max_size=8), given=st.lists(filters, min_size=3, max_size=6))
def test_every_call_agrees_with_it_where_fields_are_indexed(
    indexed: Memorist, stored: list[dict[str, Any]], given: list[dict[str, Any]]
) -> None:
    check_every_call(indexed, stored, given)


@pytest.fixture
def indexed(target: str) -> Iterator[Memorist]:
    """A memory with an index of every field at the top that has a name, and of some below."""
    fields = [*map(escape, filter(None, KEYS)), "user.a", "a.user", "b\\.c.日本", "a.a.a", "user.--.x]"]
    with memorist.open(target, embedder=HashingEmbedder(), metadata_index=fields) as memory:
        yield memory


def check_every_call(hashed: Memorist, stored: list[dict[str, Any]], given: list[dict[str, Any]]) -> None:
    for id in [memory.id for memory in hashed.list(limit=1000)]:
        hashed.forget(id, hard=True)
    for number, document in enumerate(stored):
        hashed.add(f"note {number}", id=f"n{number}", metadata=document, on_near_duplicate="off")

    for filter in given:
        expected = {f"n{number}" for number, document in enumerate(stored) if passes(filter, document)}
        assert {memory.id for memory in hashed.list(metadata=filter)} == expected
        assert {hit.memory.id for hit in hashed.search("note", mode="keyword", metadata=filter)} == expected
        assert {hit.memory.id for hit in hashed.search("note", mode="semantic", metadata=filter)} == expected
        assert hashed.facets(None, ["sector"], metadata=filter)["sector"].get("semantic", 0) == len(expected)


@settings(max_examples=30, suppress_health_check=list(HealthCheck))
@given(before=documents, after=documents, filter=filters)
def test_the_past_is_filtered_by_the_metadata_of_then(
    hashed: Memorist, before: dict[str, Any], after: dict[str, Any], filter: dict[str, Any]
) -> None:
    if hashed.list(deleted=False).memories:
        hashed.forget("n", hard=True)
    then = hashed.add("note", id="n", metadata=before).updated_at
    hashed.update("n", metadata=after)

    for found in (hashed.list, lambda **options: hashed.search("note", **options)):
        assert bool(len(found(metadata=filter, as_of=then))) == passes(filter, before)
        assert bool(len(found(metadata=filter))) == passes(filter, after)
    assert bool(hashed.facets("note", ["sector"], metadata=filter, as_of=then)["sector"]) == passes(filter, before)


class TestPages:
    @pytest.fixture
    def many(self, hashed: Memorist) -> Memorist:
        hashed.add_many(
            {"content": f"note {number} on trains", "metadata": {"user": f"u{number % 100}", "n": number}}
            for number in range(600)
        )
        return hashed

    @pytest.mark.parametrize("mode", ["keyword", "semantic", "hybrid"])
    def test_a_page_is_full_whenever_enough_pass(self, many: Memorist, mode: str) -> None:
        found = many.search("trains", metadata={"user": "u7"}, limit=5, mode=mode)

        assert [hit.memory.metadata["user"] for hit in found] == ["u7"] * 5

    def test_what_the_filter_held_back_is_counted(self, many: Memorist) -> None:
        assert many.search("trains", metadata={"user": "u7"}, limit=10).hidden == {"metadata": 594}

    def test_a_lens_saves_it(self, many: Memorist) -> None:
        many.lenses.set("seven", metadata={"n": {"$in": [7, 8]}})

        assert sorted(hit.memory.metadata["n"] for hit in many.search("trains", lens="seven")) == [7, 8]


@pytest.mark.local_only("a server refuses it in other words")
@pytest.mark.parametrize(
    ("filter", "about"),
    [
        ([], "is a mapping"),
        ({"$where": "1=1"}, "no operator here"),
        ({"a": {"$regex": "x"}}, "no operator '\\$regex'"),
        ({"a": {"$gt": None}}, "a number or a text"),
        ({"a": {"$gt": True}}, "a number or a text"),
        ({"a": {"$in": "text"}}, "takes a list"),
        ({"a": [1, 2]}, "see \\$in"),
        ({"a": {}}, "is empty"),
        ({"a": {"$eq": 1, "b": 2}}, "mixes"),
        ({"$or": []}, "takes a list of mappings"),
        ({"$or": {"a": 1}}, "takes a list of mappings"),
        ({"a": float("nan")}, "cannot be compared"),
        ({"a": 10**30}, "cannot be compared"),
        ({"a\\": 1}, "backslash"),
        ({".".join("a" * 11): 1}, "more than 10 keys"),
        ({"$and": [{"a": n} for n in range(101)]}, "more than 100"),
        ({5: 1}, "named by text"),
        ({"a": {"$exists": 1}}, "True or False"),
        ({"a": {"$in": list(range(1001))}}, "at most 1,000"),
    ],
)
def test_what_is_no_filter_is_refused(memory: Memorist, filter: Any, about: str) -> None:
    with pytest.raises(InvalidInput, match=about):
        memory.list(metadata=filter)


def test_a_filter_nested_too_deep_is_refused(memory: Memorist) -> None:
    filter: dict[str, Any] = {"a": 1}
    for _ in range(5000):
        filter = {"$not": filter}

    with pytest.raises(InvalidInput, match="deep"):
        memory.list(metadata=filter)


def test_a_nul_in_metadata_is_replaced_and_found_so(memory: Memorist) -> None:
    added = memory.add("a note", metadata={"a": "x\x00", "b": "\\u0000"})

    assert added.metadata == {"a": "x\ufffd", "b": "\\u0000"}
    assert memory.list(metadata={"a": "x\x00", "b": "\\u0000"}).memories == (added,)
