"""Sets of keys as arrays: some keys, or all but some."""

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

Keys = NDArray[np.int64]


class KeySet(Struct, frozen=True, eq=False):
    """A set of keys, given in ascending order; `inverted`, it has all keys but these."""

    keys: Keys
    inverted: bool = False

    def __and__(self, other: "KeySet") -> "KeySet":
        if self.inverted and other.inverted:
            return KeySet(sort_unique(np.concatenate([self.keys, other.keys])), inverted=True)
        if self.inverted:
            return other & self
        listed = _is_in(self.keys, other.keys)
        return KeySet(self.keys[~listed if other.inverted else listed])

    def __or__(self, other: "KeySet") -> "KeySet":
        return ~(~self & ~other)

    def __invert__(self) -> "KeySet":
        return KeySet(self.keys, not self.inverted)


def decode_keys(listed: str) -> Keys:
    """Return the keys of a JSON list, ascending, each once."""
    numbers = listed.strip()[1:-1]
    # As text, without a Python object for each of them: a search may read tens of thousands.
    keys: Keys = np.fromstring(numbers, np.int64, sep=",") if numbers else np.empty(0, np.int64)
    return sort_unique(keys)


def is_ascending(keys: Keys) -> bool:
    """Tell if keys ascend, each there once."""
    return bool((keys[1:] > keys[:-1]).all())


def sort_unique(keys: Keys) -> Keys:
    """Return keys in ascending order, each once; for whole numbers, this is faster than numpy's `unique`."""
    if is_ascending(keys):
        return keys
    ascending = np.sort(keys)
    is_first = np.ones(len(keys), np.bool_)
    is_first[1:] = ascending[1:] != ascending[:-1]
    once: Keys = ascending[is_first]
    return once


def _is_in(keys: Keys, others: Keys) -> NDArray[np.bool_]:
    """Tell which of some keys are among others; both ascend."""
    if not len(others):
        return np.zeros(len(keys), np.bool_)
    places = np.minimum(np.searchsorted(others, keys), len(others) - 1)
    found: NDArray[np.bool_] = others[places] == keys
    return found
