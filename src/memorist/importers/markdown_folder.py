"""
Memories as a folder of Markdown: our own, one file a memory, or notes of people and of other programs.

Of our own files every field of the front matter is JSON on one line, which is YAML too, and the text behind it is the
content, byte for byte. Of other notes, `- [category] text` is a fact, and `- kind [[Note]]` is a relation, as in
basic-memory.
"""

import json
import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain, count
from pathlib import Path
from typing import Any

from memorist import validation
from memorist.errors import InvalidInput
from memorist.importers.foreign import Redactor, derived_id, memory_line, relation_line
from memorist.ingest.markdown import read_front_matter
from memorist.records import SUPERSEDES
from memorist.store.export_schema import ExportRecord

MARK = "memorist"  # the field that tells a file of our own, with the version of this form
FORM = 1
SUFFIXES = (".md", ".markdown")
MAX_NOTE = 16_000_000  # bytes
_SLUG = 48  # characters
_WRITTEN = (
    "id", "title", "created_at", "updated_at", "project", "kind", "tags", "sector", "tier", "salience", "source",
    "summary", "pinned", "metadata", "facts",
)  # fmt: skip
_ADDED = ("content", "project", "sector", "tier", "kind", "tags", "source", "title", "summary", "metadata", "id")
_SAID = ("text", "kind", "subject", "predicate", "object", "confidence", "decay_rate")

Progress = Callable[[int], None]


# Out


def write_folder(
    memories: Iterable[Mapping[str, Any]],
    relations: Iterable[Mapping[str, Any]],
    folder: Path,
    progress: Progress | None = None,
) -> int:
    """Write live memories, a file each, in a folder for each project; gives their number."""
    outward: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    successors: dict[str, Mapping[str, Any]] = {}
    for relation in relations:
        if "valid_until" not in relation:
            if relation["kind"] == SUPERSEDES:
                successors[relation["target"]] = relation
            else:
                outward[relation["source"]].append(relation)
    done = 0
    for memory in memories:
        if "deleted_at" in memory:
            continue
        place = folder / _slug(memory["project"]) if "project" in memory else folder
        place.mkdir(parents=True, exist_ok=True)
        lines = _front_matter(memory, outward.get(memory["id"], ()), successors.get(memory["id"]))
        _free(place, memory).write_bytes(("\n".join(lines) + memory["content"]).encode())
        done += 1
        if progress:
            progress(done)
    return done


def _front_matter(
    memory: Mapping[str, Any], relations: Iterable[Mapping[str, Any]], successor: Mapping[str, Any] | None
) -> list[str]:
    fields: dict[str, Any] = {MARK: FORM} | {name: memory[name] for name in _WRITTEN if _said(memory, name)}
    if "facts" in fields:
        fields["facts"] = [{name: fact[name] for name in fact if name != "versions"} for fact in fields["facts"]]
    if successor:
        fields["superseded_by"] = {"id": successor["source"], "since": successor["valid_from"]}
    linked = [
        {"kind": one["kind"], "target": one["target"], "confidence": one["confidence"], "since": one["valid_from"]}
        | ({"said_by": one["said_by"]} if "said_by" in one else {})
        for one in relations
    ]
    if linked:
        fields["relations"] = linked
    return ["---", *(f"{name}: {_one_line(value)}" for name, value in fields.items()), "---", ""]


def _said(memory: Mapping[str, Any], name: str) -> bool:
    return bool(memory.get(name)) or (name == "salience")


def _one_line(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    # What some reader of lines, or of YAML, would stumble over.
    return re.sub("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]", lambda found: f"\\u{ord(found[0]):04x}", text)


def _free(place: Path, memory: Mapping[str, Any]) -> Path:
    """A name that says when and what, and that no file has yet."""
    first = memory.get("title") or memory["content"]
    name = f"{memory['created_at'][:10]}-{_slug(first[:200])}-{_slug(memory['id'][-8:])}"
    endings = chain([""], (f"-{number}" for number in count(2)))
    return next(file for ending in endings if not (file := place / f"{name}{ending}.md").exists())


def _slug(text: str) -> str:
    words = re.findall(r"[^\W_]+", text.casefold())
    slug = ""
    for word in words:
        if len(slug) + len(word) >= _SLUG:
            break
        slug += f"-{word}" if slug else word
    return (slug or "".join(words)[:_SLUG] or "note").encode()[:120].decode(errors="ignore")


# In


@dataclass(frozen=True, slots=True)
class Pointer:
    """What a note says of another one, by whatever name it has for it."""

    source: str
    kind: str
    target: str
    since: datetime
    said: Mapping[str, Any]
    backward: bool = False  # it is the other one that says it


class MarkdownFolder:
    """
    A folder of notes as records: the memories one by one, then what they say of each other.

    What cannot be read is listed in `skipped`; what points to no note is not taken for anything.
    """

    def __init__(self, root: Path, project: str | None, redactor: Redactor) -> None:
        self._root, self._project, self._redactor = root, project, redactor
        self._pointers: list[Pointer] = []
        self._names: dict[str, str] = {}
        self.skipped: list[tuple[str, str]] = []

    def lines(self) -> Iterator[ExportRecord]:
        for file in _files(self._root):
            relative = file.relative_to(self._root).as_posix() if file != self._root else file.name
            try:
                if file.stat().st_size > MAX_NOTE:
                    raise InvalidInput(f"it has more than {MAX_NOTE / 1e6:g} MB")
                modified = datetime.fromtimestamp(file.stat().st_mtime, UTC)
                text = file.read_bytes().decode()
                yield self._note(text, str(file), relative, modified)
            except UnicodeDecodeError as exc:
                line = exc.object.count(b"\n", 0, exc.start) + 1
                self.skipped.append((relative, f"line {line} is not UTF-8"))
            except InvalidInput as exc:
                self.skipped.append((relative, str(exc)))
            except OSError as exc:
                self.skipped.append((relative, exc.strerror or str(exc)))
        yield from self._relations()

    def _note(self, text: str, place: str, relative: str, modified: datetime) -> ExportRecord:
        own = _own_fields(text)
        if own is not None:
            return self._own(*own, place, relative)
        return self._foreign(text, place, relative, modified)

    def _own(self, fields: Mapping[str, Any], content: str, place: str, relative: str) -> ExportRecord:
        """A file of our own: the memory it was made of."""
        version = fields[MARK]
        if version != FORM:
            raise InvalidInput(f"it has form {version!r}, and this version of Memorist reads {FORM}")
        given = {name: fields[name] for name in _ADDED if fields.get(name) is not None} | {"content": content}
        given["id"] = validation.memory_id(fields.get("id"))
        given["created_at"] = validation.moment(fields.get("created_at"), "created_at")
        if self._project is not None:
            given["project"] = self._project
        if "salience" in fields:
            given["salience"] = _number(fields["salience"])
        facts = fields.get("facts") or []
        if not isinstance(facts, list) or not all(isinstance(fact, Mapping) for fact in facts):
            raise InvalidInput("its facts are no list of objects")
        given["facts"] = [{name: fact[name] for name in _SAID if name in fact} for fact in facts]
        more: dict[str, Any] = {"pinned": validation.flag(fields.get("pinned", False), "pinned")}
        if fields.get("updated_at") is not None:
            more["updated_at"] = validation.moment(fields["updated_at"], "updated_at")
        line = memory_line(place, self._redacted(given), more)
        for fact, was in zip(line.fields["facts"], facts, strict=False):
            if fact["text"] == was.get("text"):
                fact |= {
                    name: validation.moment(was[name], name) for name in ("created_at", "reinforced_at") if name in was
                }
                fact["id"] = validation.memory_id(was.get("id", fact["id"]))
        self._names[given["id"]] = given["id"]
        self._point(given["id"], fields)
        return line

    def _point(self, id: str, fields: Mapping[str, Any]) -> None:
        """What a file of our own says about other memories, by their ids."""
        relations = [one for one in fields.get("relations") or () if isinstance(one, Mapping)]
        successor = fields.get("superseded_by")
        if isinstance(successor, Mapping):
            since = validation.moment(successor.get("since"), "since")
            self._pointers.append(Pointer(id, SUPERSEDES, str(successor.get("id")), since, {}, backward=True))
        for one in relations:
            said: dict[str, Any] = {"said_by": validation.name(one.get("said_by"), "said_by")}
            said |= {"confidence": validation.number(one.get("confidence", 1.0), "confidence", 0, 1)}
            since = validation.moment(one.get("since"), "since")
            self._pointers.append(Pointer(id, str(one.get("kind")), str(one.get("target")), since, said))

    def _foreign(self, text: str, place: str, relative: str, modified: datetime) -> ExportRecord:
        """A note of somebody else."""
        fields, body = read_front_matter(text)
        content = body.strip("\n")
        title = _plain(fields.get("title")) or Path(relative).stem
        said, tags, links = _semantics(content)
        told = next((fields[name] for name in ("created_at", "created", "date") if fields.get(name)), None)
        known = ("title", "type", "tags", "created_at", "created")
        given: dict[str, Any] = {
            "content": content,
            "title": title[: validation.MAX_NAME_CHARACTERS],
            "kind": _plain(fields.get("type")) or "note",
            "tags": [*dict.fromkeys([*_tags(fields.get("tags")), *tags])][: validation.MAX_TAGS],
            "facts": said[: validation.MAX_FACTS],
            "source": relative[-validation.MAX_NAME_CHARACTERS :],
            "project": self._project or _plain(fields.get("project")),
            "metadata": {name: value for name, value in fields.items() if name not in known and value is not None},
            "created_at": _moment(told) or modified,
        }
        given = self._redacted(given)
        id = derived_id("markdown", relative, given["content"])
        line = memory_line(place, given | {"id": id})
        stem = Path(relative).with_suffix("").as_posix()
        for name in (title, _plain(fields.get("permalink")), stem, Path(relative).stem):
            if name:
                self._names.setdefault(name.casefold(), id)
        since = line.fields["created_at"]
        self._pointers += [Pointer(id, kind, target, since, {}) for kind, target in links]
        return line

    def _redacted(self, given: dict[str, Any]) -> dict[str, Any]:
        texts = ("content", "title", "summary", "facts", "metadata")
        return given | {name: self._redactor(given[name]) for name in texts if name in given}

    def _relations(self) -> Iterator[ExportRecord]:
        seen = set()
        for pointer in self._pointers:
            other = self._names.get(pointer.target) or self._names.get(pointer.target.casefold())
            if other is None or other == pointer.source or (pointer.source, pointer.kind, other) in seen:
                continue
            seen.add((pointer.source, pointer.kind, other))
            source, target = (other, pointer.source) if pointer.backward else (pointer.source, other)
            yield relation_line(str(self._root), source, pointer.kind, target, pointer.since, pointer.said)


def _files(root: Path) -> Iterator[Path]:
    """The notes of a folder, in order; what begins with a dot belongs to some program."""
    if root.is_file():
        yield root
        return
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            if name.lower().endswith(SUFFIXES) and not name.startswith("."):
                yield Path(folder, name)


def _own_fields(text: str) -> tuple[dict[str, Any], str] | None:
    """The front matter and the content of a file of our own; None for any other."""
    if text.startswith("---\r\n"):  # as it comes out of a checkout on Windows
        text = text.replace("\r\n", "\n")
    head, found, content = text.partition("\n---\n")
    if not found or not head.startswith(f"---\n{MARK}: "):
        return None
    fields, _ = read_front_matter(f"{head}\n---\n")  # as somebody may have written it by hand
    for line in head.split("\n")[1:]:
        name, colon, value = line.partition(": ")
        if colon:
            with suppress(ValueError):
                fields[name] = json.loads(value)
    return fields, content


_FENCE = re.compile(r" {0,3}(```|~~~)")
_ITEM = re.compile(r"\s*[-*+]\s+(.*\S)")
_OBSERVATION = re.compile(r"\[([^\[\]()]{1,200})\]\s+(.+)")
_NO_CATEGORY = re.compile(r"[xX\W]?|\d{1,3}:\d{2}.*")  # a task, or a time of a transcript
_RELATION = re.compile(r"""(?:"([^"]+)"|'([^']+)'|([^\s\[\]"']+))\s+\[\[([^\[\]]+)\]\]\s*(?:\([^()]*\))?""")
_LINK = re.compile(r"\[\[([^\[\]]+)\]\]")
_TAG = re.compile(r"(?<!\S)#([\w/-]+)")


def _semantics(content: str) -> tuple[list[dict[str, Any]], list[str], list[tuple[str, str]]]:
    """The observations of a note as facts, their tags, and what it points to, by kind and name."""
    facts: list[dict[str, Any]] = []
    tags: list[str] = []
    links: list[tuple[str, str]] = []
    fence = None
    for line in content.splitlines():
        if found := _FENCE.match(line):
            fence = None if fence == found[1] else fence or found[1]
        if fence or line.lstrip().startswith(">"):
            continue
        item = _ITEM.match(line)
        relation = _RELATION.fullmatch(item[1]) if item else None
        if relation:
            links.append(((relation[1] or relation[2] or relation[3]).strip(), _target(relation[4])))
            continue
        links += [("links_to", _target(found[1])) for found in _LINK.finditer(line)]
        observation = _OBSERVATION.fullmatch(item[1]) if item else None
        if observation and not _NO_CATEGORY.fullmatch(observation[1].strip()):
            tags += _TAG.findall(observation[2])
            text = re.sub(r"(?:\s+#[\w/-]+)+(?=\s*(?:\([^()]*\))?$)", "", observation[2]).strip()
            facts.append({"text": text, "kind": observation[1].strip()})
    return facts, tags, links


def _target(link: str) -> str:
    """The name in a link, without an alias or a heading."""
    return re.split(r"[|#]", link, maxsplit=1)[0].strip()


def _plain(value: Any) -> str | None:
    """A value of the front matter as one line of text."""
    text = " ".join(str(value).split()) if isinstance(value, str | int) and not isinstance(value, bool) else ""
    return text[: validation.MAX_NAME_CHARACTERS] or None


def _tags(value: Any) -> list[str]:
    given = value if isinstance(value, list) else str(value).split(",") if isinstance(value, str) else []
    return [tag for one in given if (tag := (_plain(one) or "").removeprefix("#"))]


def _number(value: Any) -> float:
    """A number, also one that YAML reads as text."""
    try:
        return float(value)
    except (TypeError, ValueError) as exc:
        raise InvalidInput(f"salience {value!r} is no number") from exc


def _moment(value: Any) -> datetime | None:
    try:
        return None if value is None else validation.moment(value, "created_at")
    except InvalidInput:
        return None
