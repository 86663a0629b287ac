"""A page of hits is made of memories that are read last."""

from datetime import UTC, datetime

from candidates import make_candidate
from memorist import Memorist
from memorist.present.hits import build_page
from memorist.profiles import PROFILES
from memorist.records import NO_FILTER
from memorist.search.fusion import Ranked
from memorist.search.signals import Evidence
from memorist.text.query import parse_query


def test_a_memory_that_was_forgotten_after_it_was_ranked_makes_room_for_the_next(memory: Memorist) -> None:
    ids = [memory.add(f"note {number} on foxes").id for number in range(12)]
    store = memory._resources.store
    query = parse_query("foxes", "auto")
    scope = store.resolve_scope(NO_FILTER)
    found = store.match_keywords(query, scope, limit=12, page=12, weights={"content": 1.0}).matches
    keys = sorted(match.key for match in found)
    ranked = [Ranked(make_candidate(key), 1.0 - place / 100, {}, {}) for place, key in enumerate(keys)]
    memory.forget(ids[3])

    page = build_page(
        ranked, lambda keys: store.load_memories(keys, NO_FILTER), query, PROFILES["balanced"], None,
        Evidence.of(query, []), datetime.now(UTC), detail="full", include_facts=True,
    )  # fmt: skip

    assert [hit.memory.id for hit in page.hits] == [*ids[:3], *ids[4:11]]
