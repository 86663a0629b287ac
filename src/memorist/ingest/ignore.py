"""
The rules of a `.gitignore`: which files and folders it leaves out, and which it takes back in.

They are ours because a walk must know of a folder whether to enter it, which `pathspec` cannot tell: to it `*` and
`!*/` ignore every folder, though git enters them, and a line `*a*a*a*a*a*a*b` keeps it busy for minutes.
"""

import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

LONGEST = 4096  # characters of a pattern
TOGETHER = 200  # rules in one expression: with each group more, all others take longer

_CASE = re.IGNORECASE if sys.platform in ("win32", "darwin") else 0  # as git has it there
_WILDCARD = re.compile(r"\*\*+/?|\*|\?|\[|\\|[^*?\[\\]+", re.DOTALL)
_CLASSES = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "blank": r" \t",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\s",
    "upper": "A-Z",
    "xdigit": "0-9A-Fa-f",
}


@dataclass(frozen=True, slots=True)
class Rule:
    """One line: what matches it is ignored, or after a `!` not ignored."""

    regex: str  # for a name, or if it is not for any, for a path below the folder of the file
    for_any: bool  # however deep it is
    ignores: bool
    folders_only: bool
    by_name: bool  # what it says of a name does not begin with a wildcard
    by_suffix: bool  # but it ends with a suffix


class Rules:
    """All lines of one file, which hold for everything below its folder."""

    def __init__(self, folder: str, lines: Iterable[str]) -> None:
        """The folder ends in a slash; all paths asked about begin with it."""
        self._start = len(folder)
        self._rules = [rule for rule in map(_rule, lines) if rule]
        self._for_folders = [_Any(self._rules, for_any, True) for for_any in (True, False)]
        self._for_files = [_Any(self._rules, for_any, False) for for_any in (True, False)]

    def __bool__(self) -> bool:
        return bool(self._rules)

    def about(self, path: str, is_folder: bool) -> Rule | None:
        """The rule that decides about a path: the last that matches it."""
        by_name, by_path = self._for_folders if is_folder else self._for_files
        last = max(by_name.last(path, path.rfind("/") + 1), by_path.last(path, self._start))
        return self._rules[last] if last >= 0 else None


class _Any:
    """Rules of one sort in a few expressions, with a group for each, the last rule first: it wins over the others."""

    def __init__(self, rules: Sequence[Rule], for_any: bool, is_folder: bool) -> None:
        numbers = [
            number
            for number, rule in enumerate(rules)
            if rule.for_any == for_any and (is_folder or not rule.folders_only)
        ][::-1]
        self._groups = [numbers[start : start + TOGETHER] for start in range(0, len(numbers), TOGETHER)]
        self._regexes = [
            re.compile("|".join(f"({rules[number].regex})" for number in group), re.DOTALL | _CASE)
            for group in self._groups
        ]

    def last(self, path: str, start: int) -> int:
        for regex, group in zip(self._regexes, self._groups, strict=True):
            found = regex.fullmatch(path, start)
            if found and found.lastindex:
                return group[found.lastindex - 1]
        return -1


def lines_of(data: bytes) -> list[str]:
    """The lines of such a file as git cuts them; names in it are bytes that need not be UTF-8."""
    text = data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape")
    return [line.removesuffix("\r") for line in text.split("\n")]


def _rule(line: str) -> Rule | None:
    """A line as a rule; None if it is a comment, or no pattern."""
    pattern = line.rstrip(" ")
    if (len(pattern) - len(pattern.rstrip("\\"))) % 2:  # a last space that is escaped counts
        pattern += line[len(pattern) : len(pattern) + 1]
    if pattern.startswith("#") or len(pattern) > LONGEST:
        return None
    negated, folders_only = pattern.startswith("!"), pattern.endswith("/")
    pattern = pattern.removeprefix("!").removesuffix("/")
    for_any = "/" not in pattern
    regex = _regex(pattern.removeprefix("/"), for_any)
    if not regex:
        return None
    name = pattern.rpartition("/")[2]
    by_name, by_suffix = name[:1] not in ("*", "?", "["), "." in re.split(r"[*?\]]", name)[-1]
    return Rule(regex, for_any, not negated, folders_only, by_name, by_suffix)


def _regex(pattern: str, for_any: bool) -> str:
    """
    A pattern as a regular expression; none if it can match nothing.

    What a wildcard has passed is never tried again (`(?>...)`): its first fit leaves most of the path to the rest, so
    where that fails any other would. Thus no pattern, whoever wrote it, takes long.
    """
    folders, name = [""], [""]  # what follows each `**/`, and in the last of these what follows each `*`
    place = 0
    while place < len(pattern):
        found = _WILDCARD.match(pattern, place)
        token = found[0] if found else ""
        begins = not for_any and (place == 0 or pattern[place - 1] == "/")
        place += len(token)
        if begins and token.startswith("**") and (token.endswith("/") or place == len(pattern)):
            folders[-1] += _passing(name, "[^/]*?")
            folders, name = [*folders, ""], [""]
            if not token.endswith("/"):
                return _passing(folders, "(?:.*?/)??") + ".+"
        elif token.startswith("*"):
            name.append("/" if token.endswith("/") else "")
        elif token == "[":
            characters, place = _one_of(pattern, place)
            if not characters:
                return ""
            name[-1] += characters
        elif token == "\\":
            if place == len(pattern):
                return ""
            name[-1] += re.escape(pattern[place])
            place += 1
        else:
            name[-1] += "[^/]" if token == "?" else re.escape(token)
    folders[-1] += _passing(name, "[^/]*?", to_the_end=True)
    return _passing(folders, "(?:.*?/)??", to_the_end=True)


def _passing(parts: list[str], wildcard: str, to_the_end: bool = False) -> str:
    """Parts with a wildcard between any two; after the last one, a part that has to fit at the end."""
    passed = [f"(?>{wildcard}{part})" for part in parts[1:]]
    if passed and to_the_end:
        passed[-1] = wildcard + parts[-1]
    return parts[0] + "".join(passed)


def _one_of(pattern: str, place: int) -> tuple[str, int]:
    """What stands between brackets, as git reads it, and the place after it; nothing if they are not closed."""
    negated = pattern[place : place + 1] in ("!", "^")
    first = place = place + negated
    items, low = [], ""  # `low` may begin a range
    while (char := pattern[place : place + 1]) and (char != "]" or place == first):
        end = pattern.find("]", place)
        following = pattern[place + 1 : place + 2]
        if char == "[" and following == ":" and end > place + 2 and pattern[end - 1] == ":":
            if not (known := _CLASSES.get(pattern[place + 2 : end - 1])):
                return "", place
            items.append(known)
            low, place = "", end + 1
            continue
        ranged = char == "-" and low != "" and following not in ("", "]")
        place += 1 + (ranged and following == "\\")
        if ranged or char == "\\":
            char = pattern[place : place + 1]
            place += 1
        if not ranged:
            items.append(re.escape(char))
        elif low <= char:
            items.append(f"{re.escape(low)}-{re.escape(char)}")
        low = "" if ranged else char
    characters = "".join(items)
    if not char:
        return "", place
    if negated:
        return f"[^/{characters}]", place + 1
    return f"(?!/)[{characters}]" if characters else "(?!)", place + 1
