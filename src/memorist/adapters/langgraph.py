"""
LangGraph's long-term store over a memory.

An item is a memory: its indexed fields are the text that searches find, and namespace, key and value are metadata. The
project is the path of the namespace, so `memorist list --project users/ada` lists the items of ("users", "ada").
"""

import asyncio
import hashlib
import json
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Self

from memorist.adapters.project_documents import list_exact, search_exact
from memorist.engine import Memorist, open_memory
from memorist.errors import MissingExtra, NotFound
from memorist.records import Hit, Memory
from memorist.validation import MAX_NAME_CHARACTERS

try:
    from langgraph.store.base import (
        BaseStore,
        GetOp,
        IndexConfig,
        ListNamespacesOp,
        MatchCondition,
        Op,
        PutOp,
        Result,
        SearchItem,
        SearchOp,
        TTLConfig,
        ensure_embeddings,
        get_text_at_path,
        validate_op_namespace,
    )

    from memorist.adapters.langchain import LangChainEmbedder  # LangGraph brings what it needs
except ImportError as exc:
    raise MissingExtra("LangGraph's store needs an extra: pip install 'memorist[langgraph]'") from exc

_ITEM = "langgraph"  # the kind of an item
_PASSAGE = "langgraph-passage"  # the kind of one indexed field of an item that has several
_WHOLE = "$"  # the path of the whole value
_COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "$gt": lambda one, other: one > other,
    "$gte": lambda one, other: one >= other,
    "$lt": lambda one, other: one < other,
    "$lte": lambda one, other: one <= other,
}
_SIMILARITY_DIGITS = 4  # vectors are stored rounded; further digits would order items that are equally near
_MAX_TTL_MINUTES = 100 * 365 * 24 * 60  # from a hundred years on, an item does not expire
_MAX_PUSHED_DOWN = 50  # conditions of a filter that the database tests; the others are tested afterwards
_MAX_LISTED_PROJECTS = 100  # that a search is filtered by
_ESCAPED = re.compile("%([0-9A-F]+);")
_NOT_IN_PATH = re.compile("[%/\x00-\x1f\x7f\ud800-\udfff]|^\\s|\\s\\Z")  # space at an end would be cut off
_NOT_PUSHED_DOWN = re.compile(r"[\\.\x00\ud800-\udfff]")  # keys that may be paths, or that no database can store


class MemoristStore(BaseStore):
    """
    A store of LangGraph in a memory.

    `index["fields"]` are the paths of a value that searches look at; the whole value, if it is not given. The model is
    that of the memory. `mode` is that of the searches; the score of a "semantic" one is the cosine similarity. `ttl`
    takes LangGraph's settings. Expired items are never returned; later writes erase them.
    """

    supports_ttl = True

    def __init__(
        self,
        memory: Memorist,
        *,
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
        mode: str = "hybrid",
    ) -> None:
        self.memory, self._mode = memory, mode
        self.index_config = index
        self.ttl_config = ttl
        self._fields: Sequence[str] = (index or {}).get("fields") or [_WHOLE]

    @classmethod
    @contextmanager
    def open(
        cls,
        target: str | Path | None = None,
        *,
        namespace: str = "default",
        index: IndexConfig | None = None,
        ttl: TTLConfig | None = None,
        mode: str = "hybrid",
    ) -> Iterator[Self]:
        """Open a memory and its store; `index["embed"]` is its model, instead of the bundled one."""
        embedder = None
        if index is not None and (embed := index.get("embed")) is not None:
            embedder = LangChainEmbedder(ensure_embeddings(embed), dimensions=index.get("dims"))
        with open_memory(target, namespace=namespace, embedder=embedder) as memory:
            yield cls(memory, index=index, ttl=ttl, mode=mode)

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Run operations: all that read see the store as it was before those that write."""
        given = list(ops)
        for op in given:
            validate_op_namespace(op)
        results = [None if isinstance(op, PutOp) else self._read(op) for op in given]
        self._write({(op.namespace, op.key): op for op in given if isinstance(op, PutOp)}.values())
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        return await asyncio.to_thread(self.batch, list(ops))

    def _read(self, op: Op) -> Result:
        if isinstance(op, GetOp):
            found = self._load([_item_id(op.namespace, op.key)], refresh_ttl=op.refresh_ttl)
            return _to_item(found[0]) if found else None
        if isinstance(op, SearchOp):
            return self._search(op)
        if isinstance(op, ListNamespacesOp):
            return self._list_namespaces(op)
        raise ValueError(f"{type(op).__name__} is no operation of a store")

    def _search(self, op: SearchOp) -> list[SearchItem]:
        count = op.offset + op.limit
        projects = self._list_projects(op.namespace_prefix) if op.namespace_prefix else []
        if op.namespace_prefix and not projects:
            return []
        # Projects are looked up in an index; if there are many, most of what is looked at passes anyway.
        is_listed = 0 < len(projects) <= _MAX_LISTED_PROJECTS
        narrowed: dict[str, Any] = {"kind": _ITEM, "project": projects if is_listed else None}
        narrowed["metadata"] = _narrow(() if is_listed else op.namespace_prefix, op.filter or {})
        if not op.query:
            memories = list_exact(self.memory, lambda memory: _passes(memory, op), count, **narrowed)
            scores: dict[str, float | None] = {memory.id: None for memory in memories}
        else:
            scores = self._score(op.query, op, count, narrowed)
            if len(scores) < count:
                narrowed["metadata"]["langgraph.indexed"] = False
                unscored = list_exact(self.memory, lambda memory: _passes(memory, op), count - len(scores), **narrowed)
                scores |= {memory.id: None for memory in unscored}
        page = list(scores)[op.offset : count]
        return [_to_item(memory, scores[memory.id]) for memory in self._load(page, refresh_ttl=op.refresh_ttl)]

    def _score(self, query: str, op: SearchOp, count: int, narrowed: Mapping[str, Any]) -> dict[str, float | None]:
        """Return the ids of the items that are nearest to a query, with their scores: of each, its best field's."""

        def select(hits: Sequence[Hit]) -> dict[str, float | None]:
            scores: dict[str, float | None] = {}
            for hit in hits:
                details = hit.memory.metadata[_ITEM]
                if details["indexed"] and _passes(hit.memory, op):
                    similarity = hit.similarity if self._mode == "semantic" else None
                    score = hit.score if similarity is None else round(similarity, _SIMILARITY_DIGITS)
                    scores.setdefault(details["item"], score)
            return scores

        options = {**narrowed, "kind": (_ITEM, _PASSAGE), "mode": self._mode, "include_superseded": True}
        return search_exact(self.memory, query, select, count, **options)

    def _list_namespaces(self, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        conditions = op.match_conditions or ()
        prefixes = [_literal_part(each.path) for each in conditions if each.match_type == "prefix"]
        found: set[tuple[str, ...]] = set()
        for project in self._list_projects(max(prefixes, key=len, default=())):
            for namespace in self._read_namespaces(project) if _is_cut(project) else [_split_path(project)]:
                if all(_matches(each, namespace) for each in conditions):
                    found.add(namespace[: op.max_depth])
        return sorted(found)[op.offset : op.offset + op.limit]

    def _list_projects(self, prefix: Sequence[str]) -> list[str]:
        """Return the paths of all namespaces that begin so; of those that are cut, some may begin otherwise."""
        return self.memory.review.projects(_ITEM, _join_path(prefix)[:MAX_NAME_CHARACTERS] or None)

    def _read_namespaces(self, project: str) -> set[tuple[str, ...]]:
        """Return the namespaces whose paths are too long for the name of a project, and begin alike."""
        items = list_exact(self.memory, lambda memory: True, kind=_ITEM, project=project)
        return {tuple(memory.metadata[_ITEM]["namespace"]) for memory in items}

    def _load(self, ids: list[str], *, refresh_ttl: bool) -> list[Memory]:
        """Return items in the order of the ids; reading them may extend their time to live."""
        found = list(self.memory.get(ids)) if ids else []
        if refresh_ttl:
            for memory in found:
                if (minutes := memory.metadata[_ITEM].get("ttl")) is not None:
                    with suppress(NotFound):
                        self.memory.update(memory.id, expires_at=_expiry(minutes))
        return found

    def _write(self, ops: Collection[PutOp]) -> None:
        ids = {_item_id(op.namespace, op.key): op for op in ops}
        before = {memory.id: memory.metadata[_ITEM]["passages"] for memory in self._load(list(ids), refresh_ttl=False)}
        drafts: list[dict[str, Any]] = []
        for id, op in ids.items():
            new = list(self._drafts(op, id)) if op.value is not None else []
            drafts += new
            stale = [_passage_id(id, number) for number in range(max(0, len(new) - 1), before.get(id, 0))]
            for gone in stale if new else [id, *stale]:
                with suppress(NotFound):
                    self.memory.forget(gone)
        if drafts:
            self.memory.add_many(drafts)

    def _drafts(self, op: PutOp, id: str) -> Iterator[dict[str, Any]]:
        """Yield the memory of an item, and one for each text if several fields are indexed."""
        texts = self._extract_texts(op)
        passages = texts if len(texts) > 1 else []
        details = {
            "namespace": list(op.namespace),
            "under": list(_list_prefixes(op.namespace)),
            "key": op.key,
            "value": dict(op.value or {}),
            "indexed": bool(texts),
            "passages": len(passages),
            "item": id,
            "ttl": op.ttl,
            "updated_at": datetime.now(UTC).isoformat(),  # reading an item may update the memory, but not the item
        }
        shared = {
            "metadata": {_ITEM: details},
            "project": _join_path(op.namespace)[:MAX_NAME_CHARACTERS],
            "expires_at": None if op.ttl is None else _expiry(op.ttl),
        }
        yield {"id": id, "kind": _ITEM, "content": "\n".join(texts) or op.key.strip() or _ITEM, **shared}
        for number, text in enumerate(passages):
            yield {"id": _passage_id(id, number), "kind": _PASSAGE, "content": text, **shared}

    def _extract_texts(self, op: PutOp) -> list[str]:
        """Return the texts of a value that are indexed, each once."""
        if op.index is False:
            return []
        texts: list[str] = []
        for path in self._fields if op.index is None else op.index:
            texts += [_render(op.value)] if path == _WHOLE else get_text_at_path(op.value, path)
        return list(dict.fromkeys(text for text in texts if text.strip()))


def _item_id(namespace: tuple[str, ...], key: str) -> str:
    """Return an id of fixed length: namespaces and keys may be longer than an id."""
    path = json.dumps([*namespace, key]).encode()
    return f"{_ITEM}:{hashlib.sha256(path).hexdigest()[:40]}"


def _passage_id(item_id: str, number: int) -> str:
    return f"{item_id}/{number}"


def _join_path(namespace: Sequence[str]) -> str:
    """Return a namespace as one text, different for each."""
    return "/".join(_NOT_IN_PATH.sub(lambda found: f"%{ord(found[0]):X};", label) for label in namespace)


def _split_path(path: str) -> tuple[str, ...]:
    """Return the namespace that `_join_path` made a text of."""
    return tuple(_ESCAPED.sub(lambda found: chr(int(found[1], 16)), label) for label in path.split("/"))


def _is_cut(project: str) -> bool:
    return len(project) >= MAX_NAME_CHARACTERS


def _list_prefixes(namespace: tuple[str, ...]) -> Iterator[str]:
    for length in range(1, len(namespace) + 1):
        yield _join_path(namespace[:length])


def _literal_part(path: Sequence[str]) -> tuple[str, ...]:
    return tuple(path[: path.index("*")] if "*" in path else path)


def _matches(condition: MatchCondition, namespace: tuple[str, ...]) -> bool:
    path = condition.path
    if len(path) > len(namespace):
        return False
    part = namespace[: len(path)] if condition.match_type == "prefix" else namespace[len(namespace) - len(path) :]
    return all(pattern in ("*", label) for pattern, label in zip(path, part, strict=True))


def _expiry(minutes: float) -> datetime | None:
    return None if minutes > _MAX_TTL_MINUTES else datetime.now(UTC) + timedelta(minutes=minutes)


def _render(value: object) -> str:
    """Return a value as text for people and models: a line for each field, or the one text that it has."""
    lines = list(_render_fields(value, ""))
    return lines[0][1] if len(lines) == 1 else "\n".join(f"{path}: {text}" for path, text in lines)


def _render_fields(value: object, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from _render_fields(part, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _render_fields(part, path)
    elif value is not None and str(value).strip():
        yield path, str(value)


def _to_item(memory: Memory, score: float | None = None) -> SearchItem:
    details = memory.metadata[_ITEM]
    return SearchItem(
        namespace=tuple(details["namespace"]),
        key=details["key"],
        value=details["value"],
        created_at=memory.created_at,
        updated_at=datetime.fromisoformat(details["updated_at"]),
        score=score,
    )


def _narrow(prefix: Sequence[str], filter: Mapping[str, Any]) -> dict[str, Any]:
    """Return a filter by metadata for the items below a prefix that may pass a filter of LangGraph."""
    conditions: dict[str, Any] = {"langgraph.under": _join_path(prefix)} if prefix else {}
    for key, wanted in list(filter.items())[:_MAX_PUSHED_DOWN]:
        tests = wanted if isinstance(wanted, Mapping) else {"$eq": wanted}
        pushed = {name: value for name, value in tests.items() if _is_pushed_down(name, value)}
        if pushed and not _NOT_PUSHED_DOWN.search(key):
            conditions[f"langgraph.value.{key}"] = pushed
    return conditions


def _is_pushed_down(operator: str, value: object) -> bool:
    """Return whether the database means at least what LangGraph means by a test."""
    if isinstance(value, bool):
        return operator == "$eq"
    if isinstance(value, str):
        return operator in ("$eq", *_COMPARISONS) and len(value) < MAX_NAME_CHARACTERS
    return operator in ("$eq", *_COMPARISONS) and isinstance(value, int | float) and abs(value) < 2**63


def _passes(memory: Memory, op: SearchOp) -> bool:
    details = memory.metadata[_ITEM]
    return tuple(details["namespace"][: len(op.namespace_prefix)]) == tuple(op.namespace_prefix) and all(
        _compare(_find_value(details["value"], key), wanted) for key, wanted in (op.filter or {}).items()
    )


def _find_value(value: Mapping[str, Any], key: str) -> object:
    """Return the value of a key, or at a path with dots."""
    if key in value or "." not in key:
        return value.get(key)
    first, _, rest = key.partition(".")
    inner = value.get(first)
    return _find_value(inner, rest) if isinstance(inner, dict) else None


def _compare(value: object, wanted: object) -> bool:
    if isinstance(wanted, Mapping):
        if any(str(key).startswith("$") for key in wanted):
            return all(_apply(value, operator, operand) for operator, operand in wanted.items())
        return isinstance(value, dict) and all(_compare(value.get(key), part) for key, part in wanted.items())
    return _equals(value, wanted)


def _apply(value: object, operator: str, operand: object) -> bool:
    if operator == "$eq":
        return _equals(value, operand)
    if operator == "$ne":
        return not _equals(value, operand)
    if operator not in _COMPARISONS:
        raise ValueError(f"{operator} is no operator of a filter; there are: $eq, $ne, {', '.join(_COMPARISONS)}")
    return _same_kind(value, operand) and _COMPARISONS[operator](value, operand)


def _same_kind(value: object, other: object) -> bool:
    """Return whether two values can be ordered: texts, or numbers other than true, false and NaN."""
    if isinstance(value, str) or isinstance(other, str):
        return isinstance(value, str) and isinstance(other, str)
    return _is_number(value) and _is_number(other)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and not math.isnan(value)


def _equals(value: object, wanted: object) -> bool:
    """Compare as JSON does: true is not 1, and lists are equal if they have equal items."""
    if isinstance(wanted, list | tuple):
        return (
            isinstance(value, list)
            and len(value) == len(wanted)
            and all(_compare(one, other) for one, other in zip(value, wanted, strict=True))
        )
    return isinstance(value, bool) == isinstance(wanted, bool) and value == wanted
