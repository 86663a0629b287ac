"""
Export memories to a folder of Markdown notes, and import such notes and those of people and other programs.

A note that Memorist writes has one memory. Every field of its front matter is JSON on one line, which is YAML too, and
the text after it is the content, byte for byte. In other notes, `- [category] text` is a fact, and `- kind [[Note]]`
is a relation, as in basic-memory.
"""

import json
import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from itertools import chain, count
from pathlib import Path
from typing import Any

from msgspec import Struct

from memorist import validation
from memorist.atomic_file import make_folder
from memorist.errors import InvalidInput
from memorist.ids import shorten_id
from memorist.importers.formats.values import as_list
from memorist.importers.input_file import load_json
from memorist.importers.memories import Redactor, derive_id, memory_record, relation_record
from memorist.ingest.markdown import split_front_matter
from memorist.ingest.readers import is_binary, read_bytes
from memorist.ingest.walk import MAX_FILE_BYTES, FoundFile, Walk
from memorist.records import SUPERSEDES
from memorist.store.export import ExportRecord

_VERSION_FIELD = "memorist"  # marks a note that Memorist wrote, with the version of its format
_VERSION = 1
SUFFIXES = (".md", ".markdown")
_NOTES = ("*.[mM][dD]", "*.[mM][aA][rR][kK][dD][oO][wW][nN]")
_MAX_SLUG_CHARACTERS = 48
_WRITTEN_FIELDS = (
    "id", "title", "created_at", "updated_at", "expires_at", "project", "kind", "tags", "sector", "tier", "salience",
    "source", "summary", "pinned", "metadata", "facts", "by_id",
)  # fmt: skip
_ADD_FIELDS = tuple(name for name in validation.UPDATABLE if name != "salience")  # which may have been read as text
_FACT_FIELDS = ("text", "kind", "subject", "predicate", "object", "confidence", "decay_rate")

_NEVER = "9999-12-31T23:59:59.999999+00:00"

_Progress = Callable[[int], None]


# Writing


def write_folder(
    memories: Iterable[Mapping[str, Any]],
    relations: Iterable[Mapping[str, Any]],
    folder: Path,
    progress: _Progress | None = None,
) -> int:
    """Write live memories, one file each, in a folder for each project, and return their number."""
    outward: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    successors: dict[str, Mapping[str, Any]] = {}
    for relation in relations:
        if "valid_until" not in relation:
            if relation["kind"] == SUPERSEDES:
                successors[relation["target"]] = relation
            else:
                outward[relation["source"]].append(relation)
    done, now = 0, datetime.now(UTC).isoformat(timespec="microseconds")
    for memory in memories:
        if "deleted_at" in memory or memory.get("expires_at", _NEVER) <= now:
            continue
        subfolder = folder / _slug(memory["project"]) if "project" in memory else folder
        make_folder(subfolder, private=True)
        lines = _write_front_matter(memory, outward.get(memory["id"], ()), successors.get(memory["id"]))
        with open(_choose_file(subfolder, memory), "xb", opener=_open_private) as file:
            file.write(("\n".join(lines) + memory["content"]).encode())
        done += 1
        if progress:
            progress(done)
    return done


def _open_private(file: str, flags: int) -> int:
    return os.open(file, flags, 0o600)


def _write_front_matter(
    memory: Mapping[str, Any], relations: Iterable[Mapping[str, Any]], successor: Mapping[str, Any] | None
) -> list[str]:
    fields: dict[str, Any] = {_VERSION_FIELD: _VERSION}
    fields |= {name: memory[name] for name in _WRITTEN_FIELDS if memory.get(name) or name == "salience"}
    if "facts" in fields:
        fields["facts"] = [{name: fact[name] for name in fact if name != "versions"} for fact in fields["facts"]]
    if successor:
        fields["superseded_by"] = {"id": successor["source"], "since": successor["valid_from"]}
    linked = [
        {
            "kind": relation["kind"],
            "target": relation["target"],
            "confidence": relation["confidence"],
            "since": relation["valid_from"],
        }
        | ({"said_by": relation["said_by"]} if "said_by" in relation else {})
        for relation in relations
    ]
    if linked:
        fields["relations"] = linked
    return ["---", *(f"{name}: {_encode_line(value)}" for name, value in fields.items()), "---", ""]


def _encode_line(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    # Escape what some readers take for a line end, or refuse in YAML.
    return re.sub("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]", lambda found: f"\\u{ord(found[0]):04x}", text)


def _choose_file(folder: Path, memory: Mapping[str, Any]) -> Path:
    """Return an unused file name made of the date, the first words and the id."""
    first = memory.get("title") or memory["content"]
    name = f"{memory['created_at'][:10]}-{_slug(first[:200])}-{_slug(shorten_id(memory['id']))}"
    suffixes = chain([""], (f"-{number}" for number in count(2)))
    return next(file for suffix in suffixes if not (file := folder / f"{name}{suffix}.md").exists())


def _slug(text: str) -> str:
    words = re.findall(r"[^\W_]+", text.casefold())
    slug = ""
    for word in words:
        if len(slug) + len(word) >= _MAX_SLUG_CHARACTERS:
            break
        slug += f"-{word}" if slug else word
    return (slug or "".join(words)[:_MAX_SLUG_CHARACTERS] or "note").encode()[:120].decode(errors="ignore")


# Reading


class _NoteReference(Struct, frozen=True):
    """A relation of a note to another one, which may be named by id, title, permalink or path."""

    source: str
    kind: str
    target: str
    since: datetime
    extra: Mapping[str, Any]
    backward: bool = False  # the relation leads from the other note to this one


def has_notes(folder: Path) -> bool:
    return any(isinstance(item, FoundFile) for item in Walk([folder], include=_NOTES))


class MarkdownFolder:
    """
    A folder of notes, read as records: the memories one by one, then their relations.

    Notes that cannot be read are listed in `skipped`; references to unknown notes are dropped.
    """

    def __init__(self, root: Path, project: str | None, redactor: Redactor) -> None:
        self._root, self._project, self._redactor = root, project, redactor
        self._references: list[_NoteReference] = []
        self._ids: dict[str, str] = {}  # by every name of a note
        self.skipped: list[tuple[str, str]] = []

    def read_records(self) -> Iterator[ExportRecord]:
        for found in self._find_notes():
            relative, place = found.name, str(self._root / found.name)
            if self._root.is_file():
                relative, place = self._root.name, str(self._root)
            try:
                data = read_bytes(found.path, MAX_FILE_BYTES)
                if is_binary(data):
                    raise InvalidInput("it is binary")
                text = data.decode()
                if (own := _parse_own_note(text)) is not None:
                    yield self._read_own_note(*own, place)
                else:
                    modified = datetime.fromtimestamp(found.mtime_ns / 1e9, UTC)
                    yield self._read_other_note(text, place, relative, modified)
            except UnicodeDecodeError as exc:
                line = exc.object.count(b"\n", 0, exc.start) + 1
                self.skipped.append((relative, f"line {line} is not UTF-8"))
            except InvalidInput as exc:
                self.skipped.append((relative, str(exc)))
        yield from self._relation_records()

    def _find_notes(self) -> Iterator[FoundFile]:
        """Yield the notes of the folder by the rules of `index`, and list what they leave out, such as links out."""
        root = os.path.realpath(self._root)
        for item in Walk([self._root], include=_NOTES):
            if isinstance(item, FoundFile):
                yield item
            else:
                place = os.path.relpath(item.path, root) if str(item.path) != root else os.path.basename(root)
                self.skipped.append((place, item.reason))

    def _read_own_note(self, fields: Mapping[str, Any], content: str, place: str) -> ExportRecord:
        """Return the memory of a note that Memorist wrote."""
        version = fields[_VERSION_FIELD]
        if version != _VERSION:
            raise InvalidInput(f"it has format version {version!r}, and this version of Memorist reads {_VERSION}")
        values = {name: fields[name] for name in _ADD_FIELDS if fields.get(name) is not None} | {"content": content}
        values["id"] = validation.memory_id(fields.get("id"))
        values["created_at"] = validation.moment(fields.get("created_at"), "created_at")
        if self._project is not None:
            values["project"] = self._project
        if "salience" in fields:
            values["salience"] = _parse_salience(fields["salience"])
        facts = fields.get("facts") or []
        if not isinstance(facts, list) or not all(isinstance(fact, Mapping) for fact in facts):
            raise InvalidInput("its facts are not a list of objects")
        values["facts"] = [{name: fact[name] for name in _FACT_FIELDS if name in fact} for fact in facts]
        extra: dict[str, Any] = {"pinned": validation.flag(fields.get("pinned", False), "pinned")}
        extra["by_id"] = validation.flag(fields.get("by_id", False), "by_id")
        if fields.get("updated_at") is not None:
            extra["updated_at"] = validation.moment(fields["updated_at"], "updated_at")
        record = memory_record(place, self._redact(values), extra)
        for fact, original in zip(record.fields["facts"], facts, strict=False):
            if fact["text"] == original.get("text"):
                times = [name for name in ("created_at", "reinforced_at") if name in original]
                fact |= {name: validation.moment(original[name], name) for name in times}
                fact["id"] = validation.memory_id(original.get("id", fact["id"]))
        self._ids[values["id"]] = values["id"]
        self._add_references(values["id"], fields)
        return record

    def _add_references(self, id: str, fields: Mapping[str, Any]) -> None:
        """Note the relations of a memory to others, which a note of Memorist names by their ids."""
        successor = fields.get("superseded_by")
        if isinstance(successor, Mapping):
            since = validation.moment(successor.get("since"), "since")
            target = str(successor.get("id"))
            self._references.append(_NoteReference(id, SUPERSEDES, target, since, {}, backward=True))
        for relation in as_list(fields.get("relations")):
            if isinstance(relation, Mapping):
                extra = {
                    "said_by": self._redactor(validation.name(relation.get("said_by"), "said_by")),
                    "confidence": validation.number(relation.get("confidence", 1.0), "confidence", 0, 1),
                }
                since = validation.moment(relation.get("since"), "since")
                kind, target = str(relation.get("kind")), str(relation.get("target"))
                self._references.append(_NoteReference(id, kind, target, since, extra))

    def _read_other_note(self, text: str, place: str, relative: str, modified: datetime) -> ExportRecord:
        """Return the memory of a note of a person or another program."""
        fields, body = split_front_matter(text)
        content = body.strip("\n")
        title = _single_line(fields.get("title")) or Path(relative).stem
        facts, tags, links = _parse_body(content)
        created = next((fields[name] for name in ("created_at", "created", "date") if fields.get(name)), None)
        known = ("title", "type", "tags", "created_at", "created")
        values = self._redact({
            "content": content,
            "title": title,
            "kind": _cut(_single_line(fields.get("type"))) or "note",
            "tags": [*dict.fromkeys([*_parse_tags(fields.get("tags")), *tags])][: validation.MAX_TAGS],
            "facts": facts[: validation.MAX_FACTS],
            "source": relative,
            "project": self._project or _cut(_single_line(fields.get("project"))),
            "metadata": {name: value for name, value in fields.items() if name not in known and value is not None},
            "created_at": _parse_time(created) or modified,
        })  # fmt: skip
        # A secret is recognised only before it is cut.
        values["title"], values["source"] = _cut(values["title"]), values["source"][-validation.MAX_NAME_CHARACTERS :]
        values["tags"] = [_cut(tag) for tag in values["tags"]]
        id = derive_id("markdown", relative, values["content"])
        record = memory_record(place, values | {"id": id})
        stem = Path(relative).with_suffix("").as_posix()
        for name in (title, _single_line(fields.get("permalink")), stem, Path(relative).stem):
            if name:
                self._ids.setdefault(name.casefold(), id)
        since = record.fields["created_at"]
        self._references += [_NoteReference(id, kind, target, since, {}) for kind, target in links]
        return record

    def _redact(self, values: dict[str, Any]) -> dict[str, Any]:
        texts = ("content", "title", "summary", "source", "facts", "tags", "metadata")
        return values | {name: self._redactor(values[name]) for name in texts if name in values}

    def _relation_records(self) -> Iterator[ExportRecord]:
        seen = set()
        for reference in self._references:
            other = self._ids.get(reference.target) or self._ids.get(reference.target.casefold())
            key = (reference.source, reference.kind, other)
            if other is None or other == reference.source or key in seen:
                continue
            seen.add(key)
            source, target = (other, reference.source) if reference.backward else (reference.source, other)
            yield relation_record(str(self._root), source, reference.kind, target, reference.since, reference.extra)


def _parse_own_note(text: str) -> tuple[dict[str, Any], str] | None:
    """Return the front matter and the content of a note that Memorist wrote; None for any other."""
    if text.startswith("---\r\n"):  # from a checkout on Windows
        text = text.replace("\r\n", "\n")
    head, found, content = text.partition("\n---\n")
    if not found or not head.startswith(f"---\n{_VERSION_FIELD}: "):
        return None
    fields, _ = split_front_matter(f"{head}\n---\n")  # a person may have edited it by hand
    for line in head.split("\n")[1:]:
        name, colon, value = line.partition(": ")
        if colon:
            with suppress(InvalidInput, ValueError, RecursionError):
                fields[name] = load_json(value, name)
    return fields, content


_FENCE = re.compile(r" {0,3}(```|~~~)")
_ITEM = re.compile(r"\s*+[-*+]\s++(.*\S)")
_OBSERVATION = re.compile(r"\[([^\[\]()]{1,200})\]\s+(.+)")
_NO_CATEGORY = re.compile(r"[xX\W]?|\d{1,3}:\d{2}.*")  # a task, or a time in a transcript
_RELATION = re.compile(r"""(?:"([^"]+)"|'([^']+)'|([^\s\[\]"']+))\s+\[\[([^\[\]]+)\]\]\s*(?:\([^()]*\))?""")
_LINK = re.compile(r"\[\[([^\[\]]+)\]\]")
_TAG = re.compile(r"(?<!\S)#([\w/-]+)")
_LAST_TAGS = re.compile(
    r"(\s*+(?:\)[^()]*+\(\s*+)?+)((?:[\w/-]++#\s++)*+)"
)  # backwards; something in brackets may follow


def _parse_body(content: str) -> tuple[list[dict[str, Any]], list[str], list[tuple[str, str]]]:
    """Return the observations of a note as facts, their tags, and its links by kind and name."""
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
            links.append(((relation[1] or relation[2] or relation[3]).strip(), _link_target(relation[4])))
            continue
        links += [("links_to", _link_target(found[1])) for found in _LINK.finditer(line)]
        observation = _OBSERVATION.fullmatch(item[1]) if item else None
        if observation and not _NO_CATEGORY.fullmatch(observation[1].strip()):
            tags += _TAG.findall(observation[2])
            facts.append({"text": _remove_last_tags(observation[2]).strip(), "kind": observation[1].strip()})
    return facts, tags, links


def _remove_last_tags(text: str) -> str:
    """Return an observation without the tags at its end. It is read backwards: so any text is read once."""
    found = _LAST_TAGS.match(text[::-1])
    if not found or not found[2]:
        return text
    return f"{text[: len(text) - found.end()]} {found[1][::-1].strip()}"


def _link_target(link: str) -> str:
    """Return the name in a link, without an alias or a heading."""
    return re.split(r"[|#]", link, maxsplit=1)[0].strip()


def _single_line(value: Any) -> str | None:
    """Return a value of the front matter as one line of text."""
    text = " ".join(str(value).split()) if isinstance(value, str | int) and not isinstance(value, bool) else ""
    return text or None


def _cut(text: str | None) -> str | None:
    return text and text[: validation.MAX_NAME_CHARACTERS]


def _parse_tags(value: Any) -> list[str]:
    names = value if isinstance(value, list) else str(value).split(",") if isinstance(value, str) else []
    return [tag for name in names if (tag := (_single_line(name) or "").removeprefix("#"))]


def _parse_salience(value: Any) -> float:
    """Return a number, also from one that YAML reads as text."""
    try:
        return float(value)
    except (TypeError, ValueError) as exc:
        raise InvalidInput(f"salience {validation.quote(value)} is not a number") from exc


def _parse_time(value: Any) -> datetime | None:
    try:
        return None if value is None else validation.moment(value, "created_at")
    except InvalidInput:
        return None
