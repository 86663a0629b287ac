"""
The engine: every stage composed into the calls that users and surfaces make.

`Memorist` documents each method; the component it delegates to implements it, often under the same name. A memory is
opened here: arguments checked, store and models put together.

Decisions and their reasons:

- A batch grows while it takes less than half a second. A slow model acknowledges every 256 texts, as before; vectors
  that are given are written 8,192 at a time.
- An agent's file is edited by a function that runs within the transaction. Reading, changing and writing are one
  step, so no edit is lost and nobody has to try again.
- While a memory is open for asyncio, the interpreter's switch interval is half a millisecond, and two calls run at
  once. The event loop waits for a turn of every thread at work. Shorter turns cost 2 to 5 % of the processor's time,
  and more threads add little throughput under one lock.
"""

from collections.abc import Collection, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memorist import validation
from memorist.config import SYNCHRONOUS, default_path, is_missing_or_empty
from memorist.embed import create_embedder
from memorist.embed.base import Embedder, Reranker
from memorist.engine.backends import check_target, distribute, open_backend, open_empty
from memorist.engine.memory import Memorist
from memorist.engine.resources import Resources
from memorist.engine.transfer import restore_backup, salvage
from memorist.records import AGENT_SURFACES, NEAR_ACTIONS, SURFACES
from memorist.redact.redaction import Redaction
from memorist.search.options import find_profile
from memorist.store.records import RecallLimits
from memorist.store.store import Store

if TYPE_CHECKING:
    from memorist.engine.asynchronous import AsyncMemorist, open_async
    from memorist.engine.migration import list_namespaces, migrate

__all__ = [
    "AsyncMemorist", "Memorist", "distribute", "list_namespaces", "migrate", "open_async", "open_memory",
    "restore_backup", "salvage",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Import what only few processes need when it is first asked for."""
    if name in ("AsyncMemorist", "open_async"):
        from memorist.engine import asynchronous  # asyncio is slow to import

        return getattr(asynchronous, name)
    if name in ("list_namespaces", "migrate"):
        from memorist.engine import migration

        return getattr(migration, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


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
    on_near_duplicate: str = "report",
    redact: bool | None = None,
    redact_allow: Sequence[str] = (),
    metadata_index: Sequence[str] | None = None,
    models: str | Path | None = None,
    reranker: Reranker | None = None,
    surface: str = "library",
    log_recalls: bool = True,
    recall_days: float = 90,
    recall_megabytes: float = 200,
    image_megabytes: float = 1000,
) -> Memorist:
    """
    Open a memory, creating it where there is none. With `read_only`, none is made: a missing file reads as an empty
    memory, and whatever would write raises StoreError.

    `target` is a path, ":memory:" or "postgresql://..."; None is the user's own database. `embedder` is None for
    the bundled model, "none" for keyword search only, "onnx:FOLDER", "openai:MODEL", "ollama:MODEL" or an object
    with `model_id`, `dimensions` and `embed(texts)`. Nothing is read from a config file or the environment, except
    that a provider reads its own key. A search that takes longer than `search_timeout` seconds is stopped and
    raises SearchTimeout. `synchronous="normal"` is faster and may lose the last writes, never the database, in a
    power cut. `on_near_duplicate` says what `add` does where an older memory says almost the same: "report" it,
    "merge" (the new one supersedes it), or "off". With `redact`, secrets are redacted before anything is stored,
    and with False never; None redacts what models write: all that "hook", "mcp" and "chat" store, and agents'
    files, turns, facts of `facts.add` and summaries of sessions. `redact_allow` are exceptions: texts, or patterns
    written as /regex/. `metadata_index` names the fields of metadata that an index makes quick to filter by; the
    namespace keeps it, and None leaves it as it is. `models` is a folder in which to look for the reranker.
    `reranker` is an object with `score_passages(question, passages, seconds)` to use instead. `surface` says by
    which way searches come: "library", "cli", "hook", "mcp", "chat" or "http". What "hook", "mcp" and "chat" put
    into prompts of agents is recorded, unless `log_recalls` is off. Recalls are kept for `recall_days`, and up to
    `recall_megabytes` of them. Of a namespace that is searched often, an image of up to `image_megabytes` is kept in
    memory: beside the vectors of a file, and together with those of a database on a server.
    """
    from memorist.embed.local import CrossEncoder  # only once a memory is opened

    validation.choice(synchronous, SYNCHRONOUS, "synchronous")
    validation.number(busy_timeout, "busy_timeout", 0, 86_400)
    validation.number(search_timeout, "search_timeout", 0.001, 86_400)
    if threads is not None:
        validation.whole_number(threads, "threads", 1, 256)
    folder = None if models is None else validation.path(models)
    surface = validation.choice(surface, SURFACES, "surface")
    limits = RecallLimits.check(recall_days, recall_megabytes)
    is_logged = validation.flag(log_recalls, "log_recalls") and surface in AGENT_SURFACES
    resolve_embedder = partial(create_embedder, threads=threads)
    base, action = find_profile(profile), validation.choice(on_near_duplicate, NEAR_ACTIONS, "on_near_duplicate")
    redaction, model_redaction = _choose_redactions(redact, redact_allow, surface)
    fields = None if metadata_index is None else validation.indexed_fields(metadata_index, "metadata_index")
    model = resolve_embedder(embedder)
    path = str(default_path()) if target is None else check_target(target)
    image_bytes = int(validation.number(image_megabytes, "image_megabytes", *validation.IMAGE_MEGABYTES) * 1e6)
    options = {"busy_timeout": busy_timeout, "synchronous": synchronous, "image_bytes": image_bytes}
    space = validation.namespace(namespace)
    resources = Resources(
        _open_store(path, space, fields, read_only=read_only, **options),
        model,
        profile=base,
        search_timeout=search_timeout,
        owns_embedder=model is not embedder,
        resolve_embedder=resolve_embedder,
        on_near_duplicate=action,
        redaction=redaction,
        model_redaction=model_redaction,
        reranker=CrossEncoder(folder=folder, threads=threads) if reranker is None else reranker,
        owns_reranker=reranker is None,
        surface=surface,
        records_prompts=is_logged and not read_only,
        recall_limits=limits,
    )
    return Memorist(resources)


def _choose_redactions(redact: object, allow: object, surface: str) -> tuple[Redaction, Redaction]:
    """Return how secrets are treated in what is added by this surface, and in what models write by any of them."""
    allowed = validation.allowances(allow, "redact_allow")
    is_on = surface in AGENT_SURFACES if redact is None else validation.flag(redact, "redact")
    return Redaction(is_on, allowed), Redaction(redact is not False, allowed)


def _open_store(
    path: str, namespace: str, fields: Collection[tuple[str, ...]] | None, *, read_only: bool, **options: Any
) -> Store:
    """Open the store of a namespace, and index these fields of metadata where they are given."""
    if read_only and is_missing_or_empty(path):
        return Store(open_empty(path), namespace)
    store = Store(open_backend(path, namespace, read_only=read_only, **options), namespace)
    if fields is not None and not read_only:
        try:
            store.index_metadata(fields)
        except BaseException:
            store.close()
            raise
    return store
