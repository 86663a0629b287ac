"""Sets of keys combine as sets do, also where they have all keys but some."""

import json

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memorist.store.key_set import KeySet, decode_keys

EVERY = set(range(20))
listed = st.tuples(st.sets(st.integers(0, 19)), st.booleans())


def make(given: tuple[set[int], bool]) -> KeySet:
    keys, inverted = given
    return KeySet(np.array(sorted(keys), np.int64), inverted)


def members(found: KeySet) -> set[int]:
    return EVERY - set(found.keys.tolist()) if found.inverted else set(found.keys.tolist())


@settings(suppress_health_check=list(HealthCheck))
@given(one=listed, other=listed)
def test_they_combine_as_sets_do(one: tuple[set[int], bool], other: tuple[set[int], bool]) -> None:
    a, b = make(one), make(other)

    assert members(a & b) == members(a) & members(b)
    assert members(a | b) == members(a) | members(b)
    assert members(~a) == EVERY - members(a)
    for found in (a & b, a | b):
        assert found.keys.tolist() == sorted(set(found.keys.tolist()))


@settings(suppress_health_check=list(HealthCheck))
@given(keys=st.lists(st.integers(-(2**63), 2**63 - 1), max_size=8))
def test_a_list_is_read_in_order_and_each_key_once(keys: list[int]) -> None:
    for separators in ((",", ":"), (", ", ": ")):
        assert decode_keys(json.dumps(keys, separators=separators)).tolist() == sorted(set(keys))
