"""
The rules of a `.gitignore` file: which files and folders it ignores.

They are our own because a walk must know whether to enter a folder, which `pathspec` cannot tell: to it `*` and `!*/`
ignore every folder, though git enters them, and a line `*a*a*a*a*a*a*b` keeps it busy for minutes.
"""

import re
import sys
from collections.abc import Iterable, Sequence

from msgspec import Struct

_MAX_PATTERN_CHARACTERS = 4096
_RULES_PER_REGEX = 200  # each further group slows down all others

_CASE_FLAG = re.IGNORECASE if sys.platform in ("win32", "darwin") else 0  # as git does there
_GLOB_WILDCARD = re.compile(r"\*\*+/?|\*|\?|\[|\\|[^*?\[\\]+", re.DOTALL)
_POSIX_CLASSES = {
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


class IgnoreRule(Struct, frozen=True):
    """A line of the file: it ignores what matches it, or after a `!` takes it back in."""

    regex: str  # matches a name at any depth, or else a path below the folder of the file
    at_any_depth: bool
    ignores: bool
    folders_only: bool
    by_name: bool  # its last part does not begin with a wildcard
    by_suffix: bool  # its last part ends with a suffix


class IgnoreRules:
    """The rules of one file, for everything below its folder."""

    def __init__(self, folder: str, lines: Iterable[str]) -> None:
        """Parse lines. The folder ends in a slash, and every path to be matched begins with it."""
        self._start = len(folder)
        self._rules = [rule for rule in map(_parse_rule, lines) if rule]
        self._for_folders = [_RuleMatcher(self._rules, at_any_depth, True) for at_any_depth in (True, False)]
        self._for_files = [_RuleMatcher(self._rules, at_any_depth, False) for at_any_depth in (True, False)]

    def __bool__(self) -> bool:
        return bool(self._rules)

    def find_rule(self, path: str, is_folder: bool) -> IgnoreRule | None:
        """Return the rule that decides about a path: the last that matches it."""
        by_name, by_path = self._for_folders if is_folder else self._for_files
        last = max(by_name.find_last(path, path.rfind("/") + 1), by_path.find_last(path, self._start))
        return self._rules[last] if last >= 0 else None


class _RuleMatcher:
    """Rules of one sort as a few regular expressions, with a group for each rule; the last comes first, for it wins."""

    def __init__(self, rules: Sequence[IgnoreRule], at_any_depth: bool, is_folder: bool) -> None:
        numbers = [
            number
            for number, rule in enumerate(rules)
            if rule.at_any_depth == at_any_depth and (is_folder or not rule.folders_only)
        ][::-1]
        self._groups = [numbers[start : start + _RULES_PER_REGEX] for start in range(0, len(numbers), _RULES_PER_REGEX)]
        self._regexes = [
            re.compile("|".join(f"({rules[number].regex})" for number in group), re.DOTALL | _CASE_FLAG)
            for group in self._groups
        ]

    def find_last(self, path: str, start: int) -> int:
        """Return the number of the last rule that matches, or -1."""
        for regex, group in zip(self._regexes, self._groups, strict=True):
            found = regex.fullmatch(path, start)
            if found and found.lastindex:
                return group[found.lastindex - 1]
        return -1


def split_rule_lines(data: bytes) -> list[str]:
    """Split such a file into lines as git does; names in it are bytes that need not be UTF-8."""
    text = data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape")
    return [line.removesuffix("\r") for line in text.split("\n")]


def _parse_rule(line: str) -> IgnoreRule | None:
    """Return the rule of a line; None for a comment, or what is not a pattern."""
    pattern = line.rstrip(" ")
    if (len(pattern) - len(pattern.rstrip("\\"))) % 2:  # an escaped last space counts
        pattern += line[len(pattern) : len(pattern) + 1]
    if pattern.startswith("#") or len(pattern) > _MAX_PATTERN_CHARACTERS:
        return None
    negated, folders_only = pattern.startswith("!"), pattern.endswith("/")
    pattern = pattern.removeprefix("!").removesuffix("/")
    at_any_depth = "/" not in pattern
    regex = _translate_pattern(pattern.removeprefix("/"), at_any_depth)
    if not regex:
        return None
    name = pattern.rpartition("/")[2]
    by_name, by_suffix = name[:1] not in ("*", "?", "["), "." in re.split(r"[*?\]]", name)[-1]
    return IgnoreRule(regex, at_any_depth, not negated, folders_only, by_name, by_suffix)


def _translate_pattern(pattern: str, at_any_depth: bool) -> str:
    """
    Translate a pattern to a regular expression; an empty one if it can match nothing.

    A wildcard never backtracks (`(?>...)`): its first match leaves most of the path to the rest, so where the rest
    fails, it would fail after any other match. So no pattern takes long.
    """
    folders, name = [""], [""]  # what follows each `**/`, and in the last of these what follows each `*`
    place = 0
    while place < len(pattern):
        found = _GLOB_WILDCARD.match(pattern, place)
        token = found[0] if found else ""
        begins = not at_any_depth and (place == 0 or pattern[place - 1] == "/")
        place += len(token)
        if begins and token.startswith("**") and (token.endswith("/") or place == len(pattern)):
            folders[-1] += _join_with_wildcard(name, "[^/]*?")
            folders, name = [*folders, ""], [""]
            if not token.endswith("/"):
                return _join_with_wildcard(folders, "(?:.*?/)??") + ".+"
        elif token.startswith("*"):
            name.append("/" if token.endswith("/") else "")
        elif token == "[":
            characters, place = _translate_brackets(pattern, place)
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
    folders[-1] += _join_with_wildcard(name, "[^/]*?", to_the_end=True)
    return _join_with_wildcard(folders, "(?:.*?/)??", to_the_end=True)


def _join_with_wildcard(parts: list[str], wildcard: str, to_the_end: bool = False) -> str:
    """Join parts with a wildcard between them; with `to_the_end`, the last part must match at the end of the path."""
    passed = [f"(?>{wildcard}{part})" for part in parts[1:]]
    if passed and to_the_end:
        passed[-1] = wildcard + parts[-1]
    return parts[0] + "".join(passed)


def _translate_brackets(pattern: str, place: int) -> tuple[str, int]:
    """Translate what stands in brackets, and return the position after them; an empty text if they are not closed."""
    negated = pattern[place : place + 1] in ("!", "^")
    first = place = place + negated
    items, low = [], ""  # `low` may begin a range
    while (char := pattern[place : place + 1]) and (char != "]" or place == first):
        end = pattern.find("]", place)
        following = pattern[place + 1 : place + 2]
        if char == "[" and following == ":" and end > place + 2 and pattern[end - 1] == ":":
            if not (known := _POSIX_CLASSES.get(pattern[place + 2 : end - 1])):
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
