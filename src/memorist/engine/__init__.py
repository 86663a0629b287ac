"""
The engine: every stage composed into the calls that users and surfaces make.

`Memorist` documents each method; the component it delegates to implements it, often under the same name. A memory is
opened here: arguments checked, store and models put together.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memorist import validation
from memorist.config import SYNCHRONOUS, default_path, is_missing_or_empty
from memorist.embed import create_embedder
from memorist.embed.base import Embedder, Reranker
from memorist.engine.backends import check_target, distribute, open_backend
from memorist.engine.facade import Memorist
from memorist.engine.resources import Resources
from memorist.engine.transfer import restore_backup, salvage
from memorist.ingest.redaction import Redaction
from memorist.records import AGENT_SURFACES, NEAR_ACTIONS, SURFACES
from memorist.search.options import find_profile
from memorist.store.store import Store

if TYPE_CHECKING:
    from memorist.engine.asynchronous import AsyncMemorist, Opening
    from memorist.engine.migration import list_namespaces, migrate

__all__ = [
    "AsyncMemorist", "Memorist", "distribute", "list_namespaces", "migrate", "open_async", "open_memory",
    "restore_backup", "salvage",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Import what only few processes need when it is first asked for."""
    if name == "AsyncMemorist":
        from memorist.engine.asynchronous import AsyncMemorist

        return AsyncMemorist
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
    near: str = "report",
    redact: bool | None = None,
    redact_allow: Sequence[str] = (),
    metadata_index: Sequence[str] | None = None,
    models: str | Path | None = None,
    reranker: Reranker | None = None,
    surface: str = "library",
    log_recalls: bool = True,
) -> Memorist:
    """
    Open a memory, creating it where there is none.

    `target` is a path, ":memory:" or "postgresql://..."; None is the user's own database. `embedder` is None for the
    bundled model, "none" for keyword search only, "openai:MODEL", "ollama:MODEL" or an object with `model_id`,
    `dimensions` and `embed(texts)`. Nothing is read from a config file or the environment, except that a provider reads
    its own key. A search that takes longer than `search_timeout` seconds is stopped and raises SearchTimeout.
    `synchronous="normal"` is faster and may lose the last writes, never the database, in a power cut. `near` says what
    `add` does where an older memory says almost the same: "report" it, "merge" (the new one supersedes it), or "off".
    With `redact`, secrets are redacted before anything is stored, and with False never; None redacts what models write:
    all that "hook", "mcp" and "chat" store, and agents' files, turns, facts of `add_fact` and summaries of sessions.
    `redact_allow` are exceptions: texts, or patterns written as /regex/. `metadata_index` names the fields of metadata
    that an index makes quick to filter by; the namespace keeps it, and None leaves it as it is. `models` is a folder in
    which to look for the reranker. `reranker` is an object with `score_passages(question, passages, seconds)` to use
    instead. `surface` says by which way searches come: "library", "cli", "hook", "mcp", "chat" or "http". What "hook",
    "mcp" and "chat" put into prompts of agents is recorded, unless `log_recalls` is off.
    """
    from memorist.embed.local import CrossEncoder  # only once a memory is opened

    validation.choice(synchronous, SYNCHRONOUS, "synchronous")
    validation.number(busy_timeout, "busy_timeout", 0, 86_400)
    validation.number(search_timeout, "search_timeout", 0.001, 86_400)
    if threads is not None:
        validation.whole_number(threads, "threads", 1, 256)
    folder = None if models is None else validation.path(models)
    surface = validation.choice(surface, SURFACES, "surface")
    is_logged = validation.flag(log_recalls, "log_recalls") and surface in AGENT_SURFACES
    resolve_embedder = partial(create_embedder, threads=threads)
    base, near = find_profile(profile), validation.choice(near, NEAR_ACTIONS, "near")
    redaction, model_redaction = _choose_redactions(redact, redact_allow, surface)
    fields = None if metadata_index is None else validation.indexed_fields(metadata_index, "metadata_index")
    model = resolve_embedder(embedder)
    path = str(default_path()) if target is None else check_target(target)
    if path == ":memory:" or (read_only and is_missing_or_empty(path)):
        path, read_only = ":memory:", False  # there is nothing to read: an empty memory, and no file is made
    space = validation.namespace(namespace)
    backend = open_backend(path, space, read_only=read_only, busy_timeout=busy_timeout, synchronous=synchronous)
    store = Store(backend, space)
    if fields is not None and not read_only:
        try:
            store.index_metadata(fields)
        except BaseException:
            store.close()
            raise
    resources = Resources(
        store,
        model,
        profile=base,
        search_timeout=search_timeout,
        owns_embedder=model is not embedder,
        resolve_embedder=resolve_embedder,
        near=near,
        redaction=redaction,
        model_redaction=model_redaction,
        reranker=CrossEncoder(folder=folder, threads=threads) if reranker is None else reranker,
        owns_reranker=reranker is None,
        surface=surface,
        records_prompts=is_logged and not read_only,
    )
    return Memorist(resources)


def _choose_redactions(redact: object, allow: object, surface: str) -> tuple[Redaction, Redaction]:
    """Return how secrets are treated in what is added by this surface, and in what models write by any of them."""
    allowed = validation.allowances(allow, "redact_allow")
    is_on = surface in AGENT_SURFACES if redact is None else validation.flag(redact, "redact")
    return Redaction(is_on, allowed), Redaction(redact is not False, allowed)


def open_async(target: str | Path | None = None, *, concurrency: int = 2, **options: Any) -> "Opening":
    """
    Open a memory for asyncio: `async with memorist.open_async() as memory`, or `memory = await memorist.open_async()`.

    It takes the options of `open`, and runs up to `concurrency` calls at once; further ones wait their turn. More than
    two are of use where calls wait for a server. While it is open, the process's switch interval is half a millisecond.
    """
    from memorist.engine.asynchronous import Opening  # asyncio is slow to import

    threads = validation.whole_number(concurrency, "concurrency", 1, 64)
    return Opening(partial(open_memory, target, **options), threads)
