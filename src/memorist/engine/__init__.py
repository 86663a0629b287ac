"""
The engine: every stage composed into the calls that users and surfaces make.

`Memorist` documents each method; the component it delegates to implements it, often under the same name. A memory is
opened here: arguments checked, store and models put together.
"""

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from memorist import validation
from memorist.config import SYNCHRONOUS, default_path, is_missing_or_empty, is_server
from memorist.embed import create_embedder
from memorist.embed.base import Embedder, Reranker
from memorist.engine.facade import Memorist
from memorist.engine.resources import Resources
from memorist.engine.transfer import restore_backup, salvage
from memorist.errors import InvalidInput, MissingExtra
from memorist.ingest.redaction import Redaction
from memorist.records import NEAR_ACTIONS
from memorist.search.options import find_profile
from memorist.store.backend import Backend
from memorist.store.store import Store

__all__ = ["Memorist", "open_memory", "restore_backup", "salvage"]


def open_memory(
    target: str | Path | None = None,
    *,
    namespace: str = "default",
    embedder: str | Embedder | None = None,
    profile: str = "balanced",
    read_only: bool = False,
    busy_timeout: float = 30.0,
    search_timeout: float = 30.0,
    synchronous: str = "full",
    threads: int | None = None,
    near: str = "report",
    redact: bool = False,
    redact_allow: Sequence[str] = (),
    models: str | Path | None = None,
    reranker: Reranker | None = None,
) -> Memorist:
    """
    Open a memory, creating it where there is none.

    `target` is a path, ":memory:" or "postgresql://..."; None is the user's own database. `embedder` is None for the
    bundled model, "none" for keyword search only, "openai:MODEL", "ollama:MODEL" or an object with `model_id`,
    `dimensions` and `embed(texts)`. Nothing is read from a config file or the environment, except that a provider reads
    its own key. A search that takes longer than `search_timeout` seconds is stopped and raises SearchTimeout.
    `synchronous="normal"` is faster and may lose the last writes, never the database, in a power cut. `near` says what
    `add` does where an older memory says almost the same: "report" it, "merge" (the new one supersedes it), or "off".
    With `redact`, secrets are redacted before anything is stored; `redact_allow` are exceptions: texts, or patterns
    written as /regex/. `models` is a folder in which to look for the reranker. `reranker` is an object with
    `score_passages(question, passages, seconds)` to use instead.
    """
    from memorist.embed.local import CrossEncoder  # only once a memory is opened

    validation.choice(synchronous, SYNCHRONOUS, "synchronous")
    validation.number(busy_timeout, "busy_timeout", 0, 86_400)
    validation.number(search_timeout, "search_timeout", 0.001, 86_400)
    if threads is not None:
        validation.whole_number(threads, "threads", 1, 256)
    folder = None if models is None else validation.path(models)
    resolve_embedder = partial(create_embedder, threads=threads)
    base, near = find_profile(profile), validation.choice(near, NEAR_ACTIONS, "near")
    redaction = Redaction(validation.flag(redact, "redact"), validation.allowances(redact_allow, "redact_allow"))
    model = resolve_embedder(embedder)
    path = _check_target(target)
    if path == ":memory:" or (read_only and is_missing_or_empty(path)):
        path, read_only = ":memory:", False  # there is nothing to read: an empty memory, and no file is made
    space = validation.namespace(namespace)
    store = Store(_open_backend(path, space, read_only, busy_timeout, synchronous), space)
    resources = Resources(
        store,
        model,
        profile=base,
        search_timeout=search_timeout,
        owns_embedder=model is not embedder,
        resolve_embedder=resolve_embedder,
        near=near,
        redaction=redaction,
        reranker=CrossEncoder(folder=folder, threads=threads) if reranker is None else reranker,
        owns_reranker=reranker is None,
    )
    return Memorist(resources)


def _open_backend(target: str, namespace: str, read_only: bool, busy_timeout: float, synchronous: str) -> Backend:
    if is_server(target):
        try:
            from memorist.store.postgres.backend import PostgresBackend
        except ImportError as exc:
            raise MissingExtra("PostgreSQL needs an extra: pip install 'memorist[postgres]'") from exc
        return PostgresBackend(target, namespace=namespace, read_only=read_only, busy_timeout=busy_timeout)
    from memorist.store.sqlite.backend import SqliteBackend

    return SqliteBackend(target, read_only=read_only, busy_timeout=busy_timeout, synchronous=synchronous)


def _check_target(target: object) -> str:
    if target is None:
        return str(default_path())
    if not isinstance(target, str | os.PathLike):
        raise InvalidInput(f"the database must be a path, not {type(target).__name__}")
    path = os.fspath(target)
    if not isinstance(path, str) or not path.strip():
        raise InvalidInput('the path of the database is empty; name a file, or ":memory:"')
    if "://" in path and not is_server(path):
        raise InvalidInput(
            f"{path.partition('://')[0]}:// databases are not supported; name a file, or postgresql://HOST/DATABASE"
        )
    return path
