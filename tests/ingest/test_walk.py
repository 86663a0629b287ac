"""Which files are found: what git would see and more, each once, and nothing from outside."""

import os
import random
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from memorist.errors import InvalidInput
from memorist.ingest.gitignore import IgnoreRules, split_rule_lines
from memorist.ingest.walk import FoundFile, SkippedPath, walk


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder to walk, in one to which nothing may lead."""
    root = tmp_path.resolve() / "root"
    root.mkdir()
    return root


def make(root: Path, *names: str, **texts: str) -> None:
    """Files with a word in them, and rules: `gitignore="*.log"`."""
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("text", "utf-8")
    for name, text in texts.items():
        (root / f".{name}").write_text(text, "utf-8")


def found(*paths: str | Path, **options: Any) -> list[str]:
    return [item.name for item in walk(paths, **options) if isinstance(item, FoundFile)]


def skipped(*paths: str | Path, **options: Any) -> dict[str, str]:
    return {item.path.name: item.reason for item in walk(paths, **options) if isinstance(item, SkippedPath)}


class TestFolders:
    def test_files_come_folder_by_folder_in_order_of_their_names(self, root: Path) -> None:
        make(root, "b.md", "a.txt", "sub/z.md", "sub/deep/x.md", "another/y.rst")

        assert found(root) == ["a.txt", "b.md", "another/y.rst", "sub/z.md", "sub/deep/x.md"]

    def test_a_file_is_told_with_where_it_is_and_what_a_stat_says(self, root: Path) -> None:
        make(root, "sub/a.md")
        os.utime(root / "sub/a.md", ns=(1, 1_234_567_890_123_456_789))

        assert list(walk([root])) == [FoundFile(root / "sub/a.md", root, "sub/a.md", 4, 1_234_567_890_123_456_789)]

    def test_a_relative_path_is_made_absolute(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        make(root, "docs/a.md")
        monkeypatch.chdir(root)

        assert [item.path for item in walk(["docs"])] == [root / "docs/a.md"]
        assert found(".") == ["docs/a.md"]
        assert found("docs/../docs/") == ["a.md"]

    def test_a_file_is_found_once_however_often_it_is_named(self, root: Path) -> None:
        make(root, "docs/a.md", "docs/b.md")

        assert found(root, root / "docs", root / "docs/a.md", str(root)) == ["docs/a.md", "docs/b.md"]
        assert found(root / "docs/a.md", root) == ["a.md", "docs/b.md"]

    def test_kinds_without_a_reader_are_skipped_with_a_word(self, root: Path) -> None:
        make(root, "a.md", "b.png", "c", "d.json", "yarn.lock", "app.min.js", "pnpm-lock.yaml", "README", "Makefile")

        assert found(root) == ["Makefile", "README", "a.md"]
        assert skipped(root) == {
            "app.min.js": "made by a tool; name the file itself to index it",
            "b.png": "no reader for .png files",
            "c": "no reader for files without a suffix",
            "d.json": ".json files hold data; name the file itself to index it",
            "pnpm-lock.yaml": "made by a tool; name the file itself to index it",
            "yarn.lock": ".lock files hold data; name the file itself to index it",
        }

    def test_a_file_that_is_named_itself_is_found_whatever_it_is(self, root: Path) -> None:
        make(root, "d.json", ".hidden", "build/x.md", gitignore="build/")

        assert found(root / "d.json", root / ".hidden", root / "build/x.md") == ["d.json", ".hidden", "x.md"]

    def test_a_folder_that_is_named_itself_is_walked_though_it_is_ignored_or_hidden(self, root: Path) -> None:
        make(root, ".git/HEAD", "build/x.md", "build/y.txt", ".notes/z.md", "node_modules/p/w.md")
        make(root, gitignore="build/\n*.txt")

        assert found(root / "build") == ["x.md"]
        assert found(root / ".notes") == ["z.md"]
        assert found(root / "node_modules") == ["p/w.md"]

    def test_large_files_are_skipped(self, root: Path) -> None:
        make(root, "a.md", "b.md")
        (root / "b.md").write_text("x" * 2001)

        assert found(root, max_bytes=2000) == ["a.md"]
        assert skipped(root / "b.md", max_bytes=2000) == {"b.md": "larger than 0.002 MB"}

    def test_a_folder_with_nothing_in_it_says_so(self, root: Path) -> None:
        assert skipped(root) == {"root": "nothing to index in it"}

        make(root, "a.md", gitignore="*")

        assert skipped(root) == {"root": "nothing to index in it but what is ignored or hidden"}


class TestPathsThatAreNotThere:
    def test_all_of_them_are_named_before_anything_is_found(self, root: Path) -> None:
        make(root, "a.md")

        with pytest.raises(InvalidInput, match=r"no such file or folder: .*nope, .*docz"):
            walk([root, root / "nope", root / "docz/*.md"])

    @pytest.mark.parametrize("path", ["", "a\0b", "x" * 5000])
    def test_what_can_be_no_path_is_no_path(self, path: str) -> None:
        with pytest.raises(InvalidInput):
            walk([path])

    def test_one_path_need_not_be_in_a_list(self, root: Path) -> None:
        make(root, "a.md")

        assert [item.path.name for item in walk(str(root))] == ["a.md"]


class TestPatterns:
    def test_they_find_what_is_before_their_wildcards_and_matches(self, root: Path) -> None:
        make(root, "docs/a.md", "docs/sub/b.md", "docs/sub/c.txt", "other/d.md")

        assert found(f"{root}/docs/**/*.md") == ["a.md", "sub/b.md"]
        assert found(f"{root}/docs/*.md") == ["a.md"]
        assert found(f"{root}/*/sub") == ["docs/sub/b.md", "docs/sub/c.txt"]
        assert found(f"{root}/d?cs/[ab].md") == ["docs/a.md"]

    def test_relative_to_where_we_are(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        make(root, "a.md", "docs/b.md")
        monkeypatch.chdir(root / "docs")

        assert found("*.md") == ["b.md"]
        assert found("../*.md") == ["a.md"]

    def test_one_with_a_suffix_finds_any_kind(self, root: Path) -> None:
        make(root, "a.json", "b.png", "c.md")

        assert found(f"{root}/*.json") == ["a.json"]
        assert found(f"{root}/*") == ["c.md"]

    def test_ignored_and_hidden_files_stay_so(self, root: Path) -> None:
        make(root, "a.md", "b.md", ".c.md", "node_modules/d.md", gitignore="b.md")

        assert found(f"{root}/**/*.md") == ["a.md"]

    def test_one_that_nothing_matches_says_so(self, root: Path) -> None:
        make(root, "a.md")

        assert skipped(f"{root}/*.mdd") == {"*.mdd": "nothing to index matches it"}

    def test_a_file_with_such_a_name_is_that_file(self, root: Path) -> None:
        make(root, "[a].md", "a.md")

        assert found(root / "[a].md") == ["[a].md"]

    def test_include_and_exclude_are_rules_for_every_root(self, root: Path) -> None:
        make(root, "a.md", "a.txt", "sub/b.md", "sub/c.rst", "drafts/d.md", "sub/drafts/e.md", "x.json")

        assert found(root, include=["*.md"]) == ["a.md", "drafts/d.md", "sub/b.md", "sub/drafts/e.md"]
        assert found(root, include=["*.md", "*.json"], exclude=["drafts/"]) == ["a.md", "x.json", "sub/b.md"]
        assert found(root, include=["sub/"]) == ["sub/b.md", "sub/c.rst", "sub/drafts/e.md"]
        assert found(root, include=["/*.txt"], exclude="*.md") == ["a.txt"]
        assert found(root, exclude=["*", "!*/", "!b.md"]) == ["sub/b.md"]
        assert found(f"{root}/sub/**/*.md", include=["drafts"]) == ["drafts/e.md"]

    def test_a_named_file_is_subject_to_exclude_only(self, root: Path) -> None:
        make(root, "a.txt", "b.txt")

        assert found(root / "a.txt", root / "b.txt", include=["*.md"], exclude=["b*"]) == ["a.txt"]


class TestHidden:
    def test_hidden_and_made_folders_are_not_walked(self, root: Path) -> None:
        make(root, "a.md", ".git/x.md", ".venv/y.md", ".z.md", "node_modules/p/README.md", "src/__pycache__/q.md")
        make(root, "env/pyvenv.cfg", "env/lib/r.md", "target/CACHEDIR.TAG", "target/s.md")

        assert found(root) == ["a.md"]
        assert skipped(root) == {}

    def test_what_is_in_github_is_written_to_be_read(self, root: Path) -> None:
        make(root, ".github/CONTRIBUTING.md", ".gitlab/b.md")

        assert found(root) == [".github/CONTRIBUTING.md"]

    def test_our_rules_can_show_what_is_hidden_if_they_name_it(self, root: Path) -> None:
        make(root, ".claude/a.md", ".cache/b.md", "node_modules/c.md", memoristignore="!.claude/\n!node_modules/")
        assert found(root) == [".claude/a.md", "node_modules/c.md"]

        make(root, memoristignore="*\n!*/\n!*.md")
        assert found(root) == []

    def test_a_repository_itself_is_never_walked(self, root: Path) -> None:
        make(root, ".git/a.md", "b.md", memoristignore="!.git/")

        assert found(root) == ["b.md"]


RULES: Mapping[str, tuple[str, str]] = {  # what stands in the file: what it ignores, what not
    "foo": ("foo|a/foo|foo/x", "food|a/xfoo"),
    "/foo": ("foo|foo/x", "a/foo"),
    "a/foo": ("a/foo|a/foo/x", "b/a/foo|foo"),
    "foo/": ("foo/x|a/foo/x", "foo|a/foo"),
    "a/foo/": ("a/foo/x", "b/a/foo/x|a/foo"),
    "*.md": ("a.md|b/c.md|.md", "a.mdx|md"),
    "/*.md": ("a.md", "b/c.md"),
    "a/*.md": ("a/b.md", "a/b/c.md"),
    "a/*": ("a/b|a/b/c", "a|b/a/c"),
    "a?c": ("abc", "ac|a/c|abbc"),
    "[ab]c": ("ac|bc", "cc|abc"),
    "[!ab]c": ("cc", "ac|bc"),
    "[^ab]c": ("cc", "ac"),
    "[a-c]x": ("ax|cx", "dx|-x"),
    "[]-]x": ("]x|-x", "ax"),
    "[a\\]]x": ("]x|ax", "\\x"),
    "[[:digit:][:upper:]]x": ("1x|Ax", "ax"),
    "[c-a]x": ("cx", "ax|bx"),
    "a[": ("", "a[|a"),
    "a\\": ("", "a|a\\"),
    "**/foo": ("foo|a/foo|a/b/foo", "a/xfoo"),
    "foo/**": ("foo/a|foo/a/b", "foo|a/foo/b"),
    "a/**/b": ("a/b|a/x/b|a/x/y/b", "ab|a/xb|x/a/b"),
    "a/**/b/**/c": ("a/b/c|a/x/b/y/c|a/b/b/x/c", "a/c|a/b/xc"),
    "a/**/x*y/z": ("a/xy/z|a/xay/b/xby/z", "a/xay/b/z"),
    "a**b": ("ab|axb", "a/b"),
    "**": ("a|a/b", ""),
    "**/": ("a/b", "a"),
    "a/**/": ("a/b/c", "a/b"),
    "\\*a": ("*a", "xa"),
    "\\#a": ("#a", "a"),
    "\\!a": ("!a", "a"),
    "#a": ("", "#a|a"),
    "a ": ("a", "a "),
    "a\\ ": ("a ", "a"),
    "a b": ("a b", "a"),
    "!a": ("", "a"),
    "a\n!a": ("", "a"),
    "!a\na": ("a", ""),
    "*\n!*/\n!*.md": ("a|b/c", "a.md|b/c.md"),
    "a/\n!a/b": ("a/b", ""),
    "a/*\n!a/b": ("a/c", "a/b|a/b/x"),
    "/": ("", "a"),
    "a//": ("", "a/b"),
    "\ufeffa": ("a", "b"),
    "a\r\nb\r\n": ("a|b", "c"),
    "été": ("été", "ete"),
}


@pytest.mark.parametrize("lines", RULES)
def test_a_rule_ignores_what_git_ignores(lines: str) -> None:
    rules = IgnoreRules("/r/", split_rule_lines(lines.encode()))

    def ignored(path: str) -> bool:
        places = [index for index, character in enumerate(path) if character == "/"]
        about = [rules.find_rule("/r/" + path[:place], True) for place in places]
        return any(rule and rule.ignores for rule in [*about, rules.find_rule("/r/" + path, False)])

    yes, no = (paths.split("|") if paths else [] for paths in RULES[lines])
    assert {path: ignored(path) for path in [*yes, *no]} == dict.fromkeys(yes, True) | dict.fromkeys(no, False)


@pytest.mark.skipif(not shutil.which("git"), reason="git is the judge here")
@pytest.mark.parametrize("seed", range(12))
def test_a_walk_finds_what_git_would_add(root: Path, seed: int) -> None:
    source = random.Random(seed)
    names = ["a", "b", "ab.md", "foo", "[x]", "a b", "a\\b", "#c", "!d", "-", "A", "b "]
    for _ in range(40):
        path = root.joinpath(*(source.choice(names) for _ in range(source.randint(1, 3))), "file.md")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    parts = "a|b|ab|foo|*|**|***|?|/|/|/|[ab]|[!a]|[a-c]|[]x]|[[:alpha:]]|[|\\|\\*|\\[|\\ | |#|.md|*.md|file".split("|")
    folders = [root, *(path for path in sorted(root.rglob("*")) if path.is_dir())]
    for folder in [root, *source.sample(folders, 4)]:
        lines = ["".join(source.choices(parts, k=source.randint(1, 4))) for _ in range(source.randint(1, 5))]
        lines = [source.choice(["", "", "!"]) + line + source.choice(["", "", "/"]) for line in lines]
        (folder / ".gitignore").write_text(source.choice(["\n", "\r\n"]).join(lines), newline="")
    subprocess.run(["git", "init", "-q", root], check=True)
    listed = subprocess.run(
        ["git", "-C", root, "-c", "core.excludesFile=", "ls-files", "-z", "--others", "--exclude-standard"],
        capture_output=True,
        check=True,
    ).stdout

    seen = {name for name in os.fsdecode(listed).split("\0") if name and not name.endswith(".gitignore")}

    assert set(found(root)) == seen


class TestRulesInFolders:
    def test_those_further_in_go_before_those_further_out(self, root: Path) -> None:
        make(root, "a.txt", "sub/a.txt", "sub/b.txt", "sub/deep/a.txt", gitignore="a.txt\n")
        (root / "sub/.gitignore").write_text("!a.txt\n/b.txt\n")
        (root / "sub/deep/.gitignore").write_text("*")

        assert found(root) == ["sub/a.txt"]

    def test_a_folder_that_is_ignored_is_not_even_looked_at(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        make(root, "a.md", "build/deep/b.md", gitignore="build")
        looked_at: list[str] = []
        scandir = os.scandir
        monkeypatch.setattr(os, "scandir", lambda path: looked_at.append(str(path)) or scandir(path))

        found(root)

        assert looked_at == [f"{root}/"]

    def test_those_of_the_repository_above_count(self, root: Path) -> None:
        make(root, ".git/info/exclude", "docs/in/a.md", "docs/in/b.txt", "docs/in/c.rst", gitignore="/docs/in/*.txt")
        (root / ".git/info/exclude").write_text("*.rst")

        assert found(root / "docs/in") == ["a.md"]

    def test_those_above_the_repository_do_not(self, root: Path) -> None:
        make(root, "repo/.git/HEAD", "repo/a.md", "b.md", gitignore="*.md", memoristignore="c.md")
        make(root, "repo/c.md")

        assert found(root / "repo") == ["a.md", "c.md"]
        assert found(root) == ["repo/a.md"]  # nor where the walk comes from above; ours do

    def test_without_a_repository_those_from_the_named_folder_on(self, root: Path) -> None:
        make(root, "docs/a.md", "docs/b.md", gitignore="a.md", memoristignore="a.md")
        (root / "docs/.gitignore").write_text("b.md")

        assert found(root / "docs") == ["a.md"]

    def test_a_repository_keeps_some_to_itself_and_its_files_go_before_them(self, root: Path) -> None:
        make(root, ".git/info/exclude", "a.md", "b.md", gitignore="!a.md")
        (root / ".git/info/exclude").write_text("*.md")

        assert found(root) == ["a.md"]

    def test_so_does_one_that_a_worktree_belongs_to(self, root: Path) -> None:
        make(root, "main/.git/info/exclude", "main/.git/worktrees/w/commondir", "w/a.md", "w/b.md", "w/.git")
        (root / "main/.git/info/exclude").write_text("a.md")
        (root / "main/.git/worktrees/w/commondir").write_text("../..\n")
        (root / "w/.git").write_text(f"gitdir: {root}/main/.git/worktrees/w\n")

        assert found(root / "w") == ["b.md"]

    def test_ours_go_before_those_of_git(self, root: Path) -> None:
        make(root, "a.md", "b.md", "sub/a.md", gitignore="a.md\n", memoristignore="!a.md\nb.md\n")
        (root / "sub/.gitignore").write_text("a.md")

        assert found(root) == ["a.md", "sub/a.md"]

    def test_rules_that_cannot_be_read_are_told(self, root: Path) -> None:
        make(root, "a.md", gitignore="x" * 200_000)
        os.mkfifo(root / ".memoristignore")

        assert found(root) == ["a.md"]
        assert skipped(root) == {
            ".gitignore": "its rules do not count: it is larger than 0.1 MB",
            ".memoristignore": "its rules do not count: it is not a file",
        }


class TestLinks:
    def test_a_file_inside_is_found_once_where_it_is(self, root: Path) -> None:
        make(root, "z/real.md")
        (root / "a.md").symlink_to("z/real.md")
        (root / "b.md").symlink_to(root / "a.md")
        (root / "folder").symlink_to("z")

        assert found(root) == ["z/real.md"]
        assert skipped(root) == {}

    def test_one_to_what_is_hidden_shows_it(self, root: Path) -> None:
        make(root, ".store/notes/a.md", ".store/b.md", ".store/c.md", "d.md", gitignore="e*\n")
        (root / "notes").symlink_to(".store/notes")
        (root / "b.md").symlink_to(".store/b.md")
        (root / "e.md").symlink_to(".store/c.md")

        assert found(root) == ["d.md", ".store/b.md", ".store/notes/a.md"]

    def test_what_leads_outside_is_skipped(self, root: Path) -> None:
        make(root, "a.md")
        make(root.parent, "outside/secret.md", "root2/x.md")
        (root / "file.md").symlink_to("../outside/secret.md")
        (root / "folder").symlink_to(root.parent / "outside")
        (root / "up").symlink_to("..")
        (root / "alike").symlink_to("../root2")
        (root / "hop").symlink_to("folder/secret.md")

        assert found(root) == ["a.md"]
        assert skipped(root) == dict.fromkeys(
            ["alike", "file.md", "folder", "hop", "up"], "a link that leads out of the folder"
        )
        assert found(f"{root}/*") == ["a.md"]

    def test_loops_and_dead_ends_end(self, root: Path) -> None:
        make(root, "a.md", "sub/b.md", ".hidden/c.md")
        (root / "self").symlink_to(".")
        (root / "sub/up").symlink_to("..")
        (root / "x").symlink_to("y")
        (root / "y").symlink_to("x")
        (root / "gone.md").symlink_to("nowhere.md")
        (root / "door").symlink_to(".hidden")
        (root / ".hidden/back").symlink_to("../door")

        assert found(root) == ["a.md", "sub/b.md", ".hidden/c.md"]
        assert skipped(root) == dict.fromkeys(["gone.md", "x", "y"], "a link to nothing")

    def test_what_is_named_may_be_one(self, root: Path) -> None:
        make(root.parent, "elsewhere/a.md")
        (root / "notes").symlink_to("../elsewhere")
        (root / "b.md").symlink_to("../elsewhere/a.md")

        assert [item.path for item in walk([root / "notes"])] == [root.parent / "elsewhere/a.md"]
        assert found(root / "b.md") == ["a.md"]


class TestWhatIsNoFile:
    def test_pipes_and_sockets_are_skipped_and_not_waited_for(self, root: Path) -> None:
        os.mkfifo(root / "pipe.md")
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(os.path.relpath(root / "sock.txt"))

            assert skipped(root, root / "pipe.md", "/dev/null") == {
                "pipe.md": "neither a file nor a folder",
                "sock.txt": "neither a file nor a folder",
                "root": "nothing to index in it",
                "null": "neither a file nor a folder",
            }

    def test_names_that_are_no_text_are_skipped_and_can_be_shown(self, root: Path) -> None:
        make(root, "a.md")
        try:
            Path(os.fsdecode(os.fsencode(root) + b"/\xff.md")).write_text("x")
            Path(os.fsdecode(os.fsencode(root) + b"/\xfe")).mkdir()
        except OSError:
            pytest.skip("the file system takes UTF-8 only")

        assert found(root) == ["a.md"]
        assert skipped(root) == dict.fromkeys(["\\udcff.md", "\\udcfe"], "its name is not UTF-8")

    def test_what_may_not_be_read_is_told_and_the_rest_goes_on(
        self, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        make(root, "a.md", "closed/b.md", "open/c.md")
        scandir = os.scandir

        def guarded(path: str) -> Any:
            if path.endswith("closed/"):
                raise PermissionError(13, "Permission denied")
            return scandir(path)

        monkeypatch.setattr(os, "scandir", guarded)

        assert found(root) == ["a.md", "open/c.md"]
        assert skipped(root) == {"closed": "it cannot be read: permission denied"}

    def test_what_vanishes_meanwhile_is_not_missed(self, root: Path) -> None:
        make(root, "a.md", "b.md", "sub/c.md", "sub2/d.md", "sub2/e.md")
        walked: Iterator[FoundFile | SkippedPath] = iter(walk([root]))

        names = [next(walked).path.name]
        (root / "b.md").unlink()
        shutil.rmtree(root / "sub")
        names += [item.path.name for item in walked]

        assert names == ["a.md", "d.md", "e.md"]


class TestCost:
    def test_deep_folders_are_no_trouble(self, root: Path) -> None:
        places = [root]
        try:
            for _ in range(1200):
                places.append(places[-1] / "d")
                places[-1].mkdir()
            (places[-1] / "a.md").write_text("x")

            assert len(found(root)) == 1
        finally:
            (places[-1] / "a.md").unlink(missing_ok=True)
            for place in reversed(places[1:]):
                place.rmdir()

    def test_thousands_of_files_take_a_moment_even_with_many_rules(self, root: Path) -> None:
        for folder in range(50):
            (root / f"f{folder}").mkdir()
            for file in range(50):
                (root / f"f{folder}/file{file}.md").touch()
        make(root, gitignore="\n".join(f"*.suffix{number}\n/build{number}/**/x\nname{number}/" for number in range(50)))

        started = time.process_time()
        assert len(found(root)) == 2500
        assert time.process_time() - started < 1

    @pytest.mark.parametrize(
        "line", ["*a" * 2000 + "b", "a/**/" * 800 + "b", "?" * 4000, "[" * 4000, "a" + " " * 4000 + "b", "**a" * 900]
    )
    def test_no_rule_takes_long(self, line: str) -> None:
        started = time.process_time()
        rules = IgnoreRules("/", [line] * 5)
        for path in ("/" + "a" * 250, "/" + "a/" * 1000 + "c"):
            rules.find_rule(path, False)

        assert time.process_time() - started < 2
