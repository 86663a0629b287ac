"""Wrong types are refused by name: every public method and every tool raises errors of Memorist alone."""

import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import memorist
from memorist import Memorist, MemoristError
from memorist.errors import InvalidInput
from memorist.mcp_server.calls import TOOLS, ToolContext
from memorist.mcp_server.tools import validate_arguments

# These take a callback, or go on for ever; `close` would end the test.
LEFT_OUT = {"close", "watch"}
METHODS = sorted(
    name for name, member in inspect.getmembers(Memorist) if inspect.isfunction(member) and not name.startswith("_")
)
_SIGNATURE_ERROR = re.compile(r"(missing|unexpected|multiple values|takes) .*(argument|value)")
CALLBACKS = {"progress", "report", "on_change", "confirm"}

scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20), st.binary(max_size=8),
    st.sampled_from([object(), 10**400, float("nan")]),
    st.sampled_from(["kept-note-1", "2026-01-01", "hybrid", "content", "memory", "\ud800", "\x00", "1e400", "ours"]),
)  # fmt: skip
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.tuples(inner),
        st.dictionaries(st.one_of(st.text(max_size=8), st.integers()), inner, max_size=3),
        st.frozensets(st.one_of(st.integers(), st.text(max_size=4)), max_size=2),
    ),
    max_leaves=4,
)


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memorist]:
    folder: Path = tmp_path_factory.mktemp("wrong types")
    with memorist.open(folder / "memory.db", embedder="none", synchronous="normal") as opened:
        opened.add("a note that is kept", id="kept-note-1", project="ours", facts=["it is kept"])
        opened.sessions.start("ours", id="session-1")
        opened.lenses.set("view", tags=["x"])
        yield opened


def attempt(call: Callable[[], Any]) -> None:
    """Make a call; nothing but errors of Memorist may come of it, or that an argument is missing or unknown."""
    try:
        call()
    except MemoristError:
        pass
    except TypeError as exc:
        if not _SIGNATURE_ERROR.search(str(exc)):
            raise


@pytest.mark.parametrize("name", [name for name in METHODS if name not in LEFT_OUT])
@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_method_refuses_wrong_types(
    memory: Memorist, name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, data: st.DataObject
) -> None:
    monkeypatch.chdir(tmp_path)  # whatever is taken for a path
    method = getattr(memory, name)
    args, kwargs = [], {}
    for parameter in inspect.signature(method).parameters.values():
        if parameter.name in CALLBACKS:
            continue
        required = parameter.default is parameter.empty
        if parameter.kind is parameter.VAR_KEYWORD:
            kwargs |= data.draw(st.dictionaries(st.sampled_from(["kind", "content", "alpha", "x"]), values, max_size=2))
        elif parameter.kind is parameter.VAR_POSITIONAL:
            args += data.draw(st.lists(values, max_size=2))
        elif parameter.kind is parameter.KEYWORD_ONLY:
            if required or data.draw(st.booleans(), label=f"give {parameter.name}"):
                kwargs[parameter.name] = data.draw(values, label=parameter.name)
        elif required or data.draw(st.booleans(), label=f"give {parameter.name}"):
            args.append(data.draw(values, label=parameter.name))
        else:
            break

    attempt(lambda: method(*args, **kwargs))


@pytest.mark.parametrize("name", TOOLS)
@settings(max_examples=100, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_tool_refuses_wrong_types(memory: Memorist, name: str, data: st.DataObject) -> None:
    schema = TOOLS[name].input_schema
    keys = st.sampled_from([*schema["properties"], "no such argument"])
    arguments = data.draw(st.dictionaries(keys, values, max_size=4))
    arguments |= {key: data.draw(st.one_of(st.text(max_size=20), values)) for key in schema.get("required", ())}

    attempt(lambda: TOOLS[name](ToolContext(memory, 6000), **validate_arguments(name, schema, arguments)))


@pytest.mark.parametrize(
    "call",
    [
        lambda memory: memory.add(5),
        lambda memory: memory.add_many(None),
        lambda memory: memory.review.merge("kept-note-1", None),
        lambda memory: memory.sessions.list(active="yes"),
        lambda memory: memory.lenses.set("view", boosts=0.5),
        lambda memory: memory.lenses.set("view", recency=True),
        lambda memory: memory.add("text", salience=10**400),
        lambda memory: memory.list(limit=-(10**400)),
    ],
)
def test_each_that_was_once_a_crash_is_invalid_input(memory: Memorist, call: Callable[[Memorist], Any]) -> None:
    with pytest.raises(InvalidInput):
        call(memory)
