"""The cache of answers to filters: valid for one mark of the database, and no larger than it may be."""

import pytest

from memorist.arguments import Filter
from memorist.store.filter_cache import FilterCache

PRIVATE, SHARED, OTHER = Filter(project="private"), Filter(project="shared"), Filter(project="other")


@pytest.fixture
def cache() -> FilterCache[range]:
    cache = FilterCache[range](len)
    cache.get(PRIVATE, "first")
    return cache


def test_an_answer_is_found_until_something_is_written(cache: FilterCache[range]) -> None:
    cache.put(PRIVATE, range(3), "first")

    assert cache.get(PRIVATE, "first") == range(3)
    assert cache.get(SHARED, "first") is None
    assert cache.get(PRIVATE, "second") is None
    assert cache.get(PRIVATE, "first") is None


def test_an_answer_that_was_read_before_a_write_is_not_kept_after_it(cache: FilterCache[range]) -> None:
    cache.get(SHARED, "second")
    cache.put(PRIVATE, range(3), "first")

    assert cache.get(PRIVATE, "second") is None


def test_a_full_cache_begins_anew(cache: FilterCache[range]) -> None:
    cache.put(PRIVATE, range(300_000), "first")
    cache.put(SHARED, range(300_000), "first")

    assert cache.get(PRIVATE, "first") is None
    assert cache.get(SHARED, "first") == range(300_000)


def test_an_answer_that_is_too_large_leaves_the_others(cache: FilterCache[range]) -> None:
    cache.put(PRIVATE, range(3), "first")
    cache.put(OTHER, range(500_000), "first")

    assert cache.get(OTHER, "first") is None
    assert cache.get(PRIVATE, "first") == range(3)
