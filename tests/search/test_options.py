"""Options of a profile that one search replaces: each is declared with its type, and checked by it."""

from typing import Any

import pytest
from msgspec.structs import asdict

from memorist.errors import InvalidInput
from memorist.profiles import PROFILES
from memorist.profiles.profile import ProfileOptions
from memorist.search.options import apply_options

BALANCED = PROFILES["balanced"]
OPTIONS = {name: value for name, value in asdict(BALANCED).items() if name != "name"}
SIGNATURE = {"limit", "record", "min_salience"}  # are named by `search` itself, or by its filters


def test_every_option_is_declared() -> None:
    assert OPTIONS.keys() - SIGNATURE <= ProfileOptions.__annotations__.keys()


@pytest.mark.parametrize("option", OPTIONS)
def test_an_option_takes_its_own_value_back(option: str) -> None:
    value = OPTIONS[option]
    changes = {} if option == "weigh_by_clarity" else {"weigh_by_clarity": BALANCED.weigh_by_clarity}

    assert apply_options(BALANCED, {option: value, **changes}) == BALANCED


@pytest.mark.parametrize("option", OPTIONS)
def test_no_option_is_taken_for_a_flag_that_is_none_and_no_flag_for_anything_else(option: str) -> None:
    wrong: Any = "yes" if isinstance(OPTIONS[option], bool) else True

    with pytest.raises(InvalidInput, match=f"^{option} must be|^{option}.* is unknown"):
        apply_options(BALANCED, {option: wrong})
