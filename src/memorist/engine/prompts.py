"""The record of what agents were told: by hooks, MCP and chat, with the text that came into their prompts."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime

from memorist.documents import DocumentHit
from memorist.embed.wordpiece import count_tokens
from memorist.engine.facade import Memorist
from memorist.engine.project_view import ProjectView
from memorist.engine.resources import Resources
from memorist.records import Hit, Recall, RecalledMemory, Reinforcement, Results, new_id


def record_hits(memory: Memorist | ProjectView, results: Results, given: Mapping[str, str]) -> None:
    """Record that a tool gave a model these texts about the hits of a search, by their ids."""
    resources = _resources_of(memory)
    if not resources.records_prompts or resources.profile.record != "off":  # then the search was recorded by itself
        return
    hits = [hit for hit in results if hit.memory.id in given and not isinstance(hit, DocumentHit)]
    recall = Recall(
        new_id(),
        resources.redaction.redact_text(results.query),
        datetime.now(UTC),
        results.mode,
        results.profile,
        results.lens,
        None,
        tuple(_recall_hit(hit, place, given[hit.memory.id]) for place, hit in enumerate(hits, 1)),
        resources.surface,
        count_tokens("\n".join(given.values())),
    )
    resources.recorder.put(recall, Reinforcement(0.0, resources.decay))


@contextmanager
def record_last(memory: Memorist | ProjectView) -> Iterator[None]:
    """Of the contexts that are built within the block, record only the last: those before it did not fit."""
    with _resources_of(memory).recorder.keep_last():
        yield


def _resources_of(memory: Memorist | ProjectView) -> Resources:
    return (memory._memory if isinstance(memory, ProjectView) else memory)._resources


def _recall_hit(hit: Hit, place: int, text: str) -> RecalledMemory:
    return RecalledMemory(hit.memory.id, place, hit.score, hit.relevance, tuple(fact.id for fact in hit.facts), text)
