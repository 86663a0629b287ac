"""Embedding models: on this machine, of OpenAI-compatible servers or Ollama, or a caller's own."""

from typing import TYPE_CHECKING

from memorist.errors import ConfigError, InvalidInput

if TYPE_CHECKING:  # numpy and the models are loaded by the first call that needs one, not by an import
    from memorist.embed.base import Embedder

LOCAL_EMBEDDERS = ("local", "none")  # nothing leaves the machine
_ONNX_EXAMPLE = "~/models/all-MiniLM-L6-v2"


def create_embedder(spec: "str | Embedder | None", *, threads: int | None = None) -> "Embedder | None":
    """Return the embedder that a setting names; None for "none"."""
    if spec is None:
        spec = "local"
    if not isinstance(spec, str):
        return _check_custom(spec)
    try:
        provider, model = parse_embedder_name(spec)
    except InvalidInput as exc:
        raise ConfigError(str(exc)) from exc
    if provider == "none":
        return None
    if provider == "local":
        from memorist.embed.local import LocalEmbedder

        return LocalEmbedder(threads=threads)
    if provider == "onnx":
        from memorist.embed.model_folder import FolderEmbedder

        return FolderEmbedder(model, threads=threads)
    from memorist.embed.remote import PROVIDERS

    return PROVIDERS[provider](model)


def parse_embedder_name(value: str) -> tuple[str, str]:
    """Return the provider that a setting names and, where it has several models, the model."""
    name = value.strip()
    provider, _, model = name.partition(":")
    if name in LOCAL_EMBEDDERS:
        return provider, model
    examples = {"onnx": _ONNX_EXAMPLE} if provider == "onnx" else _list_examples()
    if provider not in examples:
        raise InvalidInput(f"{value!r} is not an embedder: use {_describe_forms()}")
    if not model.strip():
        example = f"{provider}:{examples[provider]}"
        raise InvalidInput(f"{value!r} names no model: write {provider}:MODEL, as in {example!r}")
    return provider, model.strip()


def _list_examples() -> dict[str, str]:
    from memorist.embed.remote import PROVIDERS

    return {name: provider.example for name, provider in PROVIDERS.items()}


def _describe_forms() -> str:
    forms = [*LOCAL_EMBEDDERS, "onnx:FOLDER", *(f"{provider}:MODEL" for provider in _list_examples())]
    return f"{', '.join(map(repr, forms))}, or an object with model_id, dimensions and embed(texts)"


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
            f"{type(embedder).__name__} has no {' and no '.join(missing)}; an embedder is {_describe_forms()}"
        )
    if not callable(embedder.embed):
        raise ConfigError(f"{type(embedder).__name__}.embed cannot be called; an embedder is {_describe_forms()}")
    return embedder
