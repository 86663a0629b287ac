"""Embedding models: on this machine, of OpenAI-compatible servers or Ollama, or a caller's own."""

from typing import TYPE_CHECKING

from memorist.errors import ConfigError, InvalidInput
from memorist.validation import EMBEDDER_FORMS, embedder_name

if TYPE_CHECKING:  # numpy and the models are loaded by the first call that needs one, not by an import
    from memorist.embed.base import Embedder


def create_embedder(spec: "str | Embedder | None", *, threads: int | None = None) -> "Embedder | None":
    """Return the embedder that a setting names; None for "none"."""
    if spec is None:
        spec = "local"
    if not isinstance(spec, str):
        return _check_custom(spec)
    try:
        kind, model = embedder_name(spec)
    except InvalidInput as exc:
        raise ConfigError(str(exc)) from exc
    if kind == "none":
        return None
    if kind == "local":
        from memorist.embed.local import LocalEmbedder

        return LocalEmbedder(threads=threads)
    if kind == "onnx":
        from memorist.embed.model_folder import FolderEmbedder

        return FolderEmbedder(model, threads=threads)
    from memorist.embed.remote import OllamaEmbedder, OpenAIEmbedder

    return OpenAIEmbedder(model) if kind == "openai" else OllamaEmbedder(model)


def _check_custom(embedder: "Embedder") -> "Embedder":
    if isinstance(embedder, type):
        raise ConfigError(f"the embedder is the class {embedder.__name__}: pass an object of it")
    # The type is looked at first: reading `dimensions` itself may call a server.
    missing = [
        name
        for name in ("model_id", "dimensions", "embed")
        if not hasattr(type(embedder), name) and not hasattr(embedder, name)
    ]
    if missing:
        raise ConfigError(
            f"{type(embedder).__name__} has no {' and no '.join(missing)}; an embedder is {EMBEDDER_FORMS}"
        )
    if not callable(embedder.embed):
        raise ConfigError(f"{type(embedder).__name__}.embed cannot be called; an embedder is {EMBEDDER_FORMS}")
    return embedder
