"""The sample of the page: months of work, added once."""

from memorist import Memorist
from memorist.engine.sample import add_sample_history


def test_the_sample_has_something_for_every_view(memory: Memorist) -> None:
    report = add_sample_history(memory)
    stats = memory.stats()

    assert report.added == stats.memories == 43
    assert (report.sessions, stats.sessions) == (2, 2)
    assert min(stats.superseded, stats.pinned, stats.facts, stats.relations, stats.recalls) > 0
    assert len(memory.facets(fields=("month",))["month"]) >= 7
    changed = next(one for one in memory.list(limit=100) if one.content.startswith("Feature flags"))
    assert len(memory.history(changed.id)) == 1


def test_the_sample_is_added_once(memory: Memorist) -> None:
    first = add_sample_history(memory)
    again = add_sample_history(memory)

    assert (again.added, again.known) == (0, first.added - 9)  # the turns of its conversations are not counted
    assert memory.stats().memories == first.added
