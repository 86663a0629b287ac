"""A conversation with a language model that has this memory: through Anthropic, OpenAI-compatible servers or Ollama."""

import os
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from memorist.validation import chat_model

if TYPE_CHECKING:
    from memorist.chat.base import Provider


def resolve(
    model: str,
    *,
    timeout: float,
    environ: Mapping[str, str] = os.environ,
    sleep: Callable[[float], None] = time.sleep,
) -> "Provider":
    """The provider that a setting names, with its address and key from the environment."""
    from memorist.chat.providers import Anthropic, Ollama, OpenAI

    kinds: Mapping[str, Callable[..., Provider]] = {"anthropic": Anthropic, "openai": OpenAI, "ollama": Ollama}
    provider, name = chat_model(model)
    return kinds[provider](name, timeout=timeout, environ=environ, sleep=sleep)
