"""The record of what agents were told, with what came into their prompts; and a memory as models write to it."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy

from memorist.embed.wordpiece import count_tokens
from memorist.engine.context import recall_memory
from memorist.engine.memory import Memorist
from memorist.engine.project_view import ProjectView
from memorist.engine.resources import Resources
from memorist.file_records import DocumentHit
from memorist.records import Results


def for_model(memory: Memorist) -> Memorist:
    """Return the same memory for what a model writes: without secrets, unless the memory keeps them."""
    resources = copy(memory._resources)
    resources.redaction = resources.model_redaction
    return Memorist(resources)


def record_option(memory: Memorist | ProjectView) -> str | None:
    """Return the option `record` for a search whose answer `record_hits` records."""
    return "off" if _resources_of(memory).records_prompts else None


def record_hits(memory: Memorist | ProjectView, results: Results, given: Mapping[str, str]) -> None:
    """Record that a tool gave a model these texts about the hits of a search, by their ids."""
    resources = _resources_of(memory)
    if not resources.records_prompts:
        return
    hits = [hit for hit in results if hit.memory.id in given and not isinstance(hit, DocumentHit)]
    resources.record_prompt(
        results.query, results.mode, results.profile, results.lens,
        tuple(recall_memory(hit.memory.id, place, hit, given[hit.memory.id]) for place, hit in enumerate(hits, 1)),
        count_tokens("\n".join(given.values())),
        resources.profile.reinforcement if resources.profile.record == "reinforce" else 0.0,
    )  # fmt: skip


@contextmanager
def record_last(memory: Memorist | ProjectView) -> Iterator[Callable[[], None]]:
    """Of the contexts that are built within the block, record only the last; none once what is given is called."""
    with _resources_of(memory).recorder.keep_last() as kept:
        yield kept.clear


def _resources_of(memory: Memorist | ProjectView) -> Resources:
    return memory.resources if isinstance(memory, ProjectView) else memory._resources
