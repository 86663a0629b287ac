"""Conversations with a language model that can search the memory."""

import os
import time
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING

from memorist.validation import chat_model

if TYPE_CHECKING:
    from memorist.chat.base import Provider


def create_provider(
    model: str,
    *,
    timeout: float,
    environ: Mapping[str, str] = os.environ,
    sleep: Callable[[float], None] = time.sleep,
) -> "Provider":
    """
    Return the provider that a setting such as "ollama:qwen3" names, with its server and key from the environment.

    Each of the CHAT_PROVIDERS of `validation` has a module of its name here, whose class is its PROVIDER.
    """
    provider, name = chat_model(model)
    kind: Callable[..., Provider] = import_module(f"memorist.chat.{provider}").PROVIDER
    return kind(name, timeout=timeout, environ=environ, sleep=sleep)
