"""Models that turn text into vectors: the bundled one, OpenAI-compatible servers, Ollama, or a caller's own."""

from typing import TYPE_CHECKING

from recollect.errors import ConfigError

if TYPE_CHECKING:  # numpy and the models are loaded by the first call that needs one, not by an import
    from recollect.embed.base import Embedder

_FORMS = "'local', 'none', 'openai:MODEL', 'ollama:MODEL', or an object with model_id, dimensions and embed(texts)"
_EXAMPLES = {"openai": "openai:text-embedding-3-small", "ollama": "ollama:nomic-embed-text"}


def resolve(spec: "str | Embedder | None", *, threads: int | None = None) -> "Embedder | None":
    """The embedder that a setting names; None where the setting is "none"."""
    if spec is None:
        spec = "local"
    if not isinstance(spec, str):
        return _own(spec)
    name = spec.strip()
    if name == "none":
        return None
    if name == "local":
        from recollect.embed.local import LocalEmbedder

        return LocalEmbedder(threads=threads)
    provider, _, model = name.partition(":")
    if provider in ("openai", "ollama"):
        if not model.strip():
            raise ConfigError(f"{spec!r} names no model: write {provider}:MODEL, as in {_EXAMPLES[provider]!r}")
        from recollect.embed.remote import OllamaEmbedder, OpenAIEmbedder

        return OpenAIEmbedder(model.strip()) if provider == "openai" else OllamaEmbedder(model.strip())
    raise ConfigError(f"{spec!r} is not an embedder: use {_FORMS}")


def _own(embedder: "Embedder") -> "Embedder":
    if isinstance(embedder, type):
        raise ConfigError(f"the embedder is the class {embedder.__name__}: pass an object of it")
    # The type is asked first: reading `dimensions` itself may call a server.
    missing = [
        name
        for name in ("model_id", "dimensions", "embed")
        if not hasattr(type(embedder), name) and not hasattr(embedder, name)
    ]
    if missing:
        raise ConfigError(f"{type(embedder).__name__} has no {' and no '.join(missing)}; an embedder is {_FORMS}")
    if not callable(embedder.embed):
        raise ConfigError(f"{type(embedder).__name__}.embed cannot be called; an embedder is {_FORMS}")
    return embedder
