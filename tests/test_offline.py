"""Memorist phones nobody: no surface opens a socket, looks up a name or writes outside of its own folders."""

import os
import sys
from pathlib import Path

import pytest

import prove_offline
from memorist.cli.app import COMMANDS
from prove_offline import COMMAND_LINES, ROOT, SURFACES, AuditHook, Place, Strace, Surface, Watcher

BEST: Watcher = Strace() if Strace.works() else AuditHook()
WATCHERS = [
    pytest.param(watcher, id=type(watcher).__name__) for watcher in {type(BEST): BEST, AuditHook: AuditHook()}.values()
]
REST = 1.0  # seconds; the files of a runtime that reports to its maker are there at once
ON_WINDOWS = ("library", "command line", "every other command")  # the others need signals or a terminal


@pytest.fixture
def place(tmp_path: Path) -> Place:
    (tmp_path / "place").mkdir()
    return Place(tmp_path / "place")


def faults(surface: Surface, place: Place, watcher: Watcher) -> list[str]:
    seen = prove_offline.observe(surface, place, watcher, sys.executable, source=ROOT / "src", rest=REST)
    return prove_offline.find_faults(surface, seen, place)


def program(code: str) -> Surface:
    return Surface("a program", [(("-c", code), prove_offline.run_to_its_end)])


@pytest.mark.parametrize("surface", SURFACES, ids=lambda surface: surface.name)
def test_a_surface_phones_nobody(surface: Surface, place: Place) -> None:
    if os.name == "nt" and surface.name not in ON_WINDOWS:
        pytest.skip("it needs signals or a terminal")

    assert faults(surface, place, BEST) == []


def test_the_library_phones_nobody_as_python_itself_sees_it(place: Place) -> None:
    assert faults(SURFACES[0], place, AuditHook()) == []


def test_every_command_is_watched() -> None:
    watched = {line.split()[0] for line in COMMAND_LINES.strip().splitlines()}
    watched |= {arguments[2] for surface in SURFACES for arguments, _ in surface.programs if arguments[0] == "-m"}

    assert set(COMMANDS) - watched == set()


@pytest.mark.parametrize("watcher", WATCHERS)
class TestTheWatchersSee:
    def test_a_socket(self, place: Place, watcher: Watcher) -> None:
        # Nothing is sent: it is a datagram's socket, and the address is one for documentation.
        code = "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).connect(('192.0.2.1', 9))"

        assert {"socket AF_INET", "connect 192.0.2.1:9"} <= set(faults(program(code), place, watcher))

    def test_a_look_up(self, place: Place, watcher: Watcher) -> None:
        found = faults(program("import socket; socket.getaddrinfo('localhost', 80)"), place, watcher)

        assert any(fault.startswith(("asked", "read /etc/hosts")) for fault in found)

    def test_a_file_in_the_home(self, place: Place, watcher: Watcher) -> None:
        code = "import pathlib; pathlib.Path.home().joinpath('note').touch()"

        assert faults(program(code), place, watcher) == [str(place.home / "note")]

    def test_a_file_of_a_native_library(self, place: Place, watcher: Watcher) -> None:
        code = "import apsw; apsw.Connection('home/queue.db').execute('CREATE TABLE events (name)')"

        assert str(place.home / "queue.db") in faults(program(code), place, watcher)

    def test_what_a_child_does(self, place: Place, watcher: Watcher) -> None:
        code = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'open(\"mine\", \"w\")'])"

        assert faults(program(code), place, watcher) == [str(place.folder / "mine")]

    def test_a_temporary_file_that_stays(self, place: Place, watcher: Watcher) -> None:
        code = "import tempfile; open(tempfile.gettempdir() + '/left', 'w'); tempfile.TemporaryFile().close()"

        assert faults(program(code), place, watcher) == [str(place.temporary / "left")]
