"""The public names are a decision, never an accident; and asking for help imports nothing heavy."""

import inspect
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any, get_type_hints

import memorist
from memorist.engine.memory import ROOMS
from memorist.engine.project_view import ProjectView
from memorist.web.operations import ServerCalls


def test_every_public_name_can_be_imported() -> None:
    assert all(getattr(memorist, name) is not None for name in memorist.__all__)
    assert memorist.__all__ == sorted(memorist.__all__)


def test_a_name_that_is_not_public_is_an_attribute_error() -> None:
    assert not hasattr(memorist, "Store")


def test_help_and_import_load_none_of_the_heavy_packages() -> None:
    code = (
        "import sys, memorist\n"
        "from memorist.cli.app import app\n"
        "app.main(['--help'], standalone_mode=False)\n"
        "heavy = {'numpy', 'onnxruntime', 'tokenizers', 'apsw', 'simsimd'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr


def list_callables() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Every public function, class and method, by its name."""
    for public in (*(getattr(memorist, name) for name in memorist.__all__), ProjectView, *ROOMS, ServerCalls):
        yield public.__qualname__, public
        if inspect.isclass(public):
            for name, member in inspect.getmembers(public):
                function = member.fget if isinstance(member, property) else member
                if not name.startswith("_") and inspect.isfunction(function):
                    yield f"{public.__qualname__}.{name}", function


def test_the_types_of_every_public_callable_can_be_asked_for() -> None:
    failed = {}
    for name, public in list_callables():
        try:
            get_type_hints(public)
        except Exception as exc:
            failed[name] = exc

    assert failed == {}
