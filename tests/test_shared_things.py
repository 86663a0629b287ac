"""What the tests themselves stand on: shared folders, terminals, and skips that are told."""

import subprocess
import sys
from pathlib import Path

import pytest

from processes import ENVIRONMENT, expect, forks, read_line, send_line, start_program, wait_for_end
from shared_folders import make_once
from terminal import terminal

pytest_plugins = ["pytester"]
MAKER = """
    import sys
    from pathlib import Path
    from shared_folders import make_once

    def make(folder):
        (folder / "first").write_text("half")
        print("making", flush=True)
        sys.stdin.readline()
        (folder / "second").write_text("whole")

    folder = make_once(Path(sys.argv[1]), make)
    print(sorted(file.name for file in folder.iterdir()), flush=True)
"""
WHOLE = "['first', 'second']"


def refuse(folder: Path) -> None:
    raise AssertionError("it is there already")


class TestASharedFolder:
    def test_two_processes_make_it_once(self, tmp_path: Path) -> None:
        with start_program(MAKER, tmp_path / "kept") as first:
            expect("making", [first])
            with start_program(MAKER, tmp_path / "kept") as second:
                assert not (tmp_path / "kept").exists()
                send_line(first)
                assert wait_for_end(first) == (0, f"{WHOLE}\n")
                assert wait_for_end(second) == (0, f"{WHOLE}\n")

        assert make_once(tmp_path / "kept", refuse) == tmp_path / "kept"

    def test_one_that_was_killed_leaves_nothing_that_is_taken_for_whole(self, tmp_path: Path) -> None:
        with start_program(MAKER, tmp_path / "kept") as killed:
            expect("making", [killed])
        assert not (tmp_path / "kept").exists()

        with start_program(MAKER, tmp_path / "kept") as next_one:
            assert read_line(next_one) == "making"
            send_line(next_one)
            assert wait_for_end(next_one) == (0, f"{WHOLE}\n")
        assert {file.name for file in tmp_path.iterdir()} == {"kept", "kept.lock"}

    def test_one_that_could_not_be_made_is_tried_again(self, tmp_path: Path) -> None:
        with pytest.raises(AssertionError):
            make_once(tmp_path / "kept", refuse)

        assert make_once(tmp_path / "kept", lambda folder: (folder / "file").touch()).joinpath("file").exists()


@forks
def test_without_pseudo_terminals_a_test_says_that_it_needs_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> tuple[int, int]:
        raise OSError("out of pty devices")

    monkeypatch.setattr("pty.openpty", refuse)

    with pytest.raises(pytest.skip.Exception, match="no pseudo-terminal can be opened here: out of pty devices"):
        terminal("chat", environment={}).__enter__()


def test_skips_are_counted_by_their_reason(pytester: pytest.Pytester) -> None:
    pytester.makeconftest((Path(__file__).parent / "conftest.py").read_text().replace('"postgres_fixtures"', ""))
    pytester.makepyfile("""
        import pytest

        @pytest.mark.parametrize("number", range(3))
        def test_one(number):
            pytest.skip("there is no badger")
    """)
    told = subprocess.run(
        [sys.executable, "-m", "pytest", "-q"], cwd=pytester.path, env=ENVIRONMENT, capture_output=True, text=True
    ).stdout

    assert "3 skipped" in told
    assert "    3 there is no badger" in told
