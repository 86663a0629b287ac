"""An adapter without its framework says how to get it."""

import importlib
import sys

import pytest

from memorist import MissingExtra

ADAPTERS = {
    "agent_framework": ("agent_framework", "agent-framework"),
    "google_adk": ("google.adk", "google-adk"),
    "haystack": ("haystack", "haystack"),
    "langchain": ("langchain_core", "langchain"),
    "langgraph": ("langgraph", "langgraph"),
    "llama_index": ("llama_index", "llama-index"),
    "openai_agents": ("agents", "openai-agents"),
    "pydantic_ai": ("pydantic_ai", "pydantic-ai"),
    "strands": ("strands", "strands"),
}


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_an_adapter_without_its_framework_names_the_extra(adapter: str, monkeypatch: pytest.MonkeyPatch) -> None:
    package, extra = ADAPTERS[adapter]
    monkeypatch.setitem(sys.modules, package, None)

    with pytest.raises(MissingExtra, match=rf"pip install 'memorist\[{extra}\]'"):
        importlib.import_module(f"memorist.adapters.{adapter}")
