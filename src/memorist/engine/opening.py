"""How a memory is opened, and what it is then."""

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from memorist import validation
from memorist.config import SYNCHRONOUS, default_path, nothing_at
from memorist.embed import resolve
from memorist.embed.base import Embedder
from memorist.embed.reranker import CrossEncoder, Reranker
from memorist.engine.carrying import Carrying
from memorist.engine.living import Living
from memorist.engine.notebook import Notebook
from memorist.engine.recalling import Recalling
from memorist.engine.watching import Watching
from memorist.engine.writing import Writing
from memorist.errors import InvalidInput
from memorist.ingest.redaction import Redaction
from memorist.records import NEAR
from memorist.search import options
from memorist.store.sqlite.store import SqliteStore


class Memorist(Writing, Watching, Recalling, Living, Carrying, Notebook):
    """
    A memory: text in, found again by word and by meaning.

    Made by `memorist.open`. One object serves any number of threads; close it, or use it in a `with` block.
    """


def open_memory(
    target: str | Path | None = None,
    *,
    namespace: str = "default",
    embedder: str | Embedder | None = None,
    profile: str = "balanced",
    read_only: bool = False,
    busy_timeout: float = 30.0,
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

    `target` is a path or ":memory:"; None is the user's own database. `embedder` is None for the bundled model,
    "local:bge-small" for a better and slower one that can be added, "none" for keyword search only, "openai:MODEL",
    "ollama:MODEL" or an object with `model_id`, `dimensions` and `embed(texts)`. Nothing is read from a config file or
    the environment, except that a provider reads its own key. `synchronous="normal"` is faster and may lose the last
    writes, never the database, in a power cut. `near` says what `add` does where an older memory says almost the same:
    "report" it, "merge" (the new one supersedes it), or "off". With `redact`, secrets in what is written down are
    replaced by a mark first; `redact_allow` are texts, or patterns written as /regex/, that are none. `models` is a
    folder in which to look for further models. `reranker` is an object that reads in place of ours, with its
    `scores(question, passages, seconds)`.
    """
    options.profile(profile)
    validation.choice(synchronous, SYNCHRONOUS, "synchronous")
    validation.choice(near, NEAR, "near")
    redaction = Redaction(validation.flag(redact, "redact"), validation.allowances(redact_allow, "redact_allow"))
    validation.number(busy_timeout, "busy_timeout", 0, 86_400)
    if threads is not None:
        validation.whole_number(threads, "threads", 1, 256)
    folder = None if models is None else validation.path(models)
    named = partial(resolve, threads=threads, models=folder)
    model = named(embedder)
    path = _path(target)
    if path == ":memory:" or (read_only and nothing_at(Path(path))):
        path, read_only = ":memory:", False  # nothing there to read: an empty memory, and no file made
    store = SqliteStore(
        path,
        namespace=validation.namespace(namespace),
        read_only=read_only,
        busy_timeout=busy_timeout,
        synchronous=synchronous,
    )
    return Memorist(
        store,
        model,
        profile=profile,
        own_embedder=model is not embedder,
        named_embedder=named,
        near=near,
        redaction=redaction,
        reranker=CrossEncoder(folder=folder, threads=threads) if reranker is None else reranker,
        own_reranker=reranker is None,
    )


def _path(target: object) -> str:
    if target is None:
        return str(default_path())
    if not isinstance(target, str | os.PathLike):
        raise InvalidInput(f"the database must be a path, not {type(target).__name__}")
    path = os.fspath(target)
    if not isinstance(path, str) or not path.strip():
        raise InvalidInput('the path of the database is empty; name a file, or ":memory:"')
    if "://" in path:
        raise InvalidInput(f"{path.partition('://')[0]}:// databases are not supported; name a file")
    return path
