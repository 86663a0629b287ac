"""
Worked examples: the score of every hit, computed here by hand from the formulas the five systems published.

BM25 is what the index says (`hit.keyword_score`), cosines are where `CosineEmbedder` put them, and everything happens
at one moment of the past, so that every age is a whole number of days.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import ClassVar

import pytest

import memorist
from cosine_embedder import CosineEmbedder
from memorist import Memorist
from memorist.records import Hit, Results
from statements import read_rows

MOMENT = datetime(2026, 3, 31, 12, tzinfo=UTC)
EXACT = 1e-9


def days_before(days: float) -> datetime:
    return MOMENT - timedelta(days=days)


@contextmanager
def opened(path: Path, profile: str) -> Iterator[Memorist]:
    with memorist.open(path, embedder=CosineEmbedder(), profile=profile, on_near_duplicate="off") as memory:
        yield memory


def fill(memory: Memorist, count: int = 60) -> None:
    """Others, so that a word that few have is worth something."""
    memory.add_many(
        {"content": f"@0.0 filler number {number}", "created_at": days_before(400)} for number in range(count)
    )


def date_imports(path: Path) -> None:
    """Make each memory as old since its import as since its creation."""
    read_rows(path, "update memories set recorded_at = created_at")


def by_name(results: Results) -> dict[str, Hit]:
    """Hits by the last word of their content."""
    return {hit.memory.content.split()[-1]: hit for hit in results}


def places(hits: Sequence[Hit], value: str, least: float = -2.0) -> dict[str, int]:
    """The place of each hit in the list of one leg, best first, by its id."""
    found = [(getattr(hit, value), hit.memory.id) for hit in hits if getattr(hit, value) is not None]
    ordered = sorted((-score, id) for score, id in found if score >= least)
    assert len({score for score, _ in ordered}) == len(ordered), "the example has a tie"
    return {id: place for place, (_, id) in enumerate(ordered, 1)}


class TestSalience:
    """ccmemory: (.4 semantic + .25 keyword + .2 salience + .15 recency) * sector boost * .5 if superseded, in 0..1."""

    BOOST: ClassVar = {"reflective": 1.2, "semantic": 1.1, "procedural": 1.0, "emotional": 0.9, "episodic": 0.8}

    def published(self, hit: Hit, days: float) -> float:
        keyword = min(1.0, abs(hit.keyword_score or 0.0) / 10)
        recency = math.exp(-0.05 * days)
        score = 0.4 * (hit.similarity or 0.0) + 0.25 * keyword + 0.2 * hit.memory.salience + 0.15 * recency
        score *= self.BOOST[hit.memory.sector]
        if hit.memory.superseded:
            score *= 0.5
        return min(1.0, max(0.0, score))

    @pytest.mark.parametrize("mode", ["hybrid", "keyword", "semantic"])
    def test_every_part_of_the_formula(self, path: Path, mode: str) -> None:
        ages = {"alpha": 0, "beta": 1, "gamma": 14, "delta": 60, "epsilon": 365, "zeta": 30}
        with opened(path, "salience") as memory:
            fill(memory)
            for name, cosine, sector, salience in (
                ("alpha", 1.0, "episodic", 0.1),
                ("beta", 0.8, "semantic", 0.9),
                ("gamma", 0.6, "reflective", 0.5),
                ("delta", 0.3, "procedural", 1.0),
                ("epsilon", 0.9, "emotional", 0.0),
            ):
                text = f"@{cosine} badger {name}"
                memory.add(text, sector=sector, salience=salience, created_at=days_before(ages[name]))
            memory.add("@0.7 zeta", sector="reflective", salience=0.6, created_at=days_before(ages["zeta"]))

            results = memory.search("badger", mode=mode, as_of=MOMENT, limit=6, record="off")

        hits = {name: hit for name, hit in by_name(results).items() if name in ages}
        assert set(hits) == {"alpha", "beta", "gamma", "delta", "epsilon"} | ({"zeta"} if mode != "keyword" else set())
        for name, hit in hits.items():
            if mode == "keyword":
                assert hit.similarity is None
            if mode == "semantic":
                assert hit.keyword_score is None
            assert hit.score == pytest.approx(self.published(hit, ages[name]), abs=EXACT)
        assert [hit.score for hit in results] == sorted((hit.score for hit in results), reverse=True)

    def test_one_number_worked_out_to_the_end(self, path: Path) -> None:
        with opened(path, "salience") as memory:
            memory.add("@1.0 something else", sector="reflective", salience=0.7, created_at=days_before(10))

            (hit,) = memory.search("badger", as_of=MOMENT, record="off")

        # 1.2 * (.4 * 1 + .25 * 0 + .2 * .7 + .15 * e^-.5) = 1.2 * (.4 + .14 + .0909796)
        assert hit.score == pytest.approx(0.7571755, abs=1e-6)
        assert hit.match == ("semantic",)

    def test_a_superseded_one_has_half(self, path: Path) -> None:
        with opened(path, "salience") as memory:
            fill(memory)
            old = memory.add("@0.8 badger old", salience=0.9, created_at=days_before(20))
            new = memory.add("@0.6 badger new", salience=0.2, created_at=days_before(5))
            before = by_name(memory.search("badger", as_of=MOMENT, limit=2, record="off"))
            memory.supersede(old.id, new.id, at=days_before(5))

            results = memory.search("badger", as_of=MOMENT, include_superseded=True, limit=2, record="off")
            after = by_name(results)

        assert after["old"].score == pytest.approx(self.published(after["old"], 20), abs=EXACT)
        assert after["old"].score == pytest.approx(before["old"].score / 2, abs=EXACT)
        assert after["new"].score == pytest.approx(before["new"].score, abs=EXACT)
        assert after["old"].superseded_by is not None
        assert after["old"].superseded_by.id == new.id

    def test_a_very_good_match_is_held_at_one(self, path: Path) -> None:
        with opened(path, "salience") as memory:
            fill(memory, 2000)
            memory.add("@1.0 " + "badger " * 50, sector="reflective", salience=1.0, created_at=MOMENT)

            hit = memory.search("badger", as_of=MOMENT, record="off")[0]

        assert hit.raw["sum"] * 1.2 > 1
        assert hit.score == self.published(hit, 0) == 1.0

    def test_reinforcement_of_the_search_before_is_in_the_next_score(self, path: Path) -> None:
        """`store.reinforce(id, 0.02)`: s += .02 (1 - s), and .2 of that in the score."""
        with opened(path, "salience") as memory:
            memory.add("@1.0 badger", salience=0.4, sector="procedural")
            first = memory.search("badger")[0]
            memory.searches.list()
            second = memory.search("badger")[0]

        assert second.trace["salience"] - first.trace["salience"] == pytest.approx(0.2 * 0.02 * 0.6)


class TestConfidence:
    """
    Cortex: ((1-a)/(60+rank) + a/(60+rank)) * (1 + .1/(1+days)) * mean(confidence * e^(-rate*days)).

    Ours is that divided by the most it can be, (1/61) * 1.1, so that it lies within 0..1.
    """

    MOST = (1 / 61) * 1.1

    def published(self, hit: Hit, hits: Sequence[Hit], *, days: float, alpha: float = 0.5) -> float:
        by_word, by_meaning = places(hits, "keyword_score"), places(hits, "similarity", 0.3)
        rrf = 0.0
        if place := by_word.get(hit.memory.id):
            rrf += (1 - alpha) / (60 + place)
        if place := by_meaning.get(hit.memory.id):
            rrf += alpha / (60 + place)
        left = [fact.confidence * math.exp(-(fact.decay_rate or 0.0) * days) for fact in hit.facts]
        confidence = sum(left) / len(left) if left else 1.0
        return rrf * (1 + 0.1 / (1 + days)) * confidence

    AGES: ClassVar = {"alpha": 0, "beta": 1, "gamma": 9, "delta": 99, "epsilon": 3}

    @pytest.fixture
    def results(self, path: Path) -> Iterator[list[Results]]:
        """For three weights of the vector leg, what five memories of different kinds get."""
        with opened(path, "confidence") as memory:
            for text, facts in (
                ("@0.9 badger badger badger alpha", []),
                ("@0.6 badger badger wood beta", [{"text": "digs", "kind": "identity", "confidence": 0.9}]),
                (
                    "@0.2 badger wood wood gamma",
                    [{"text": "naps", "kind": "temporal"}, {"text": "eats", "decay_rate": 0.02, "confidence": 0.5}],
                ),
                ("@0.95 otter wood wood delta", [{"text": "swims", "kind": "preference", "confidence": 0.8}]),
                ("@0.25 weasel wood wood epsilon", []),
            ):
                memory.add(text, facts=facts, created_at=days_before(self.AGES[text.split()[-1]]))
            date_imports(path)
            yield [memory.search("badger", as_of=MOMENT, alpha=alpha) for alpha in (0.5, 0.2, 0.7)]

    def test_every_part_of_the_formula(self, results: list[Results]) -> None:
        for answer, alpha in zip(results, (0.5, 0.2, 0.7), strict=True):
            assert set(by_name(answer)) == {"alpha", "beta", "gamma", "delta"}
            for name, hit in by_name(answer).items():
                expected = self.published(hit, answer.hits, days=self.AGES[name], alpha=alpha)
                assert hit.score == pytest.approx(expected / self.MOST, abs=EXACT)
                assert math.fsum(hit.trace.values()) == pytest.approx(hit.score, abs=EXACT)
            assert [hit.score for hit in answer] == sorted((hit.score for hit in answer), reverse=True)

    def test_one_number_worked_out_to_the_end(self, results: list[Results]) -> None:
        beta = by_name(results[0])["beta"]

        # Second by its words (after alpha), third by meaning (after delta and alpha), one day old, one fact of .9 that
        # loses .001 a day: (.5/62 + .5/63) * 61 * (1 + .1/2)/1.1 * .9 e^-.001
        assert beta.score == pytest.approx((0.5 / 62 + 0.5 / 63) * 61 * 1.05 / 1.1 * 0.9 * math.exp(-0.001), abs=EXACT)
        assert beta.score == pytest.approx(0.837688, abs=1e-6)
        assert beta.match == ("hybrid",)
        assert beta.confidence == pytest.approx(0.9 * math.exp(-0.001))

    def test_what_each_leg_alone_found_has_its_words(self, results: list[Results]) -> None:
        matches = {name: hit.match for name, hit in by_name(results[0]).items()}

        assert matches == {"alpha": ("hybrid",), "beta": ("hybrid",), "gamma": ("bm25",), "delta": ("semantic",)}

    def test_the_mean_over_facts_of_different_kinds(self, results: list[Results]) -> None:
        gamma = by_name(results[0])["gamma"]

        assert gamma.confidence == pytest.approx((math.exp(-0.1 * 9) + 0.5 * math.exp(-0.02 * 9)) / 2)

    def test_old_facts_change_the_order_and_drop_out_below_a_tenth(self, path: Path) -> None:
        """TestSearchWithConfidenceDecay: insert facts with old timestamps, verify decay affects ranking."""
        with opened(path, "confidence") as memory:
            for name, cosine, words, days in (("gone", 0.9, 3, 60), ("stale", 0.8, 2, 20), ("fresh", 0.6, 1, 1)):
                memory.add(
                    f"@{cosine} {'badger ' * words}{name}",
                    facts=[{"text": "it is so", "kind": "state"}],
                    created_at=days_before(days),
                )
            plain = memory.search(
                "badger", as_of=MOMENT, confidence_mode="off", min_confidence=0, recency={"weight": 0}
            )

            results = memory.search("badger", as_of=MOMENT)

        assert list(by_name(plain)) == ["gone", "stale", "fresh"]
        assert list(by_name(results)) == ["fresh", "stale"]
        assert [hit.confidence for hit in results] == pytest.approx([math.exp(-0.05), math.exp(-1.0)])
        assert results.hidden == {"min_confidence": 1}

    def test_softened_as_it_was_later(self, path: Path) -> None:
        """Its later form: score * (.8 + .2 effective), nothing dropped."""
        with opened(path, "confidence") as memory:
            memory.add("@1.0 badger", facts=[{"text": "x", "decay_rate": 0.1}], created_at=days_before(30))
            date_imports(path)

            (hit,) = memory.search("badger", as_of=MOMENT, confidence_mode="blend", min_confidence=0)

        assert hit.score == pytest.approx((1 + 0.1 / 31) / 1.1 * (0.8 + 0.2 * math.exp(-3)), abs=EXACT)

    def test_a_superseded_one_has_half(self, path: Path) -> None:
        with opened(path, "confidence") as memory:
            old = memory.add("@1.0 badger badger old", created_at=days_before(9))
            new = memory.add("@0.5 badger new", created_at=days_before(1))
            memory.supersede(old.id, new.id, at=days_before(1))
            date_imports(path)

            hits = by_name(memory.search("badger", as_of=MOMENT, include_superseded=True))

        assert hits["old"].score == pytest.approx((1 + 0.1 / 10) / 1.1 / 2, abs=EXACT)
        assert hits["new"].score == pytest.approx(61 / 62 * (1 + 0.1 / 2) / 1.1, abs=EXACT)


class TestRank:
    """mcb: the sum of 1/(60 + rank) over both legs. Ours divides by 2/61, so that first in both is 1."""

    def published(self, hit: Hit, hits: Sequence[Hit]) -> float:
        legs = (places(hits, "keyword_score"), places(hits, "similarity"))
        return sum(1 / (60 + leg[hit.memory.id]) for leg in legs if hit.memory.id in leg)

    def test_every_hit(self, path: Path) -> None:
        with opened(path, "rank") as memory:
            memory.add_many(
                [
                    "@0.5 badger badger badger one",
                    "@0.9 badger badger wood two",
                    "@0.1 badger wood wood three",
                    "@0.8 otter wood wood four",
                    "@0.3 weasel wood wood five",
                ]
            )

            results = memory.search("badger")

        assert len(results) == 5
        for hit in results:
            assert hit.raw["rrf"] == pytest.approx(self.published(hit, results.hits), abs=EXACT)
            assert hit.score == pytest.approx(self.published(hit, results.hits) * 61 / 2, abs=EXACT)
        hits = by_name(results)
        assert hits["one"].raw["rrf"] == pytest.approx(1 / 61 + 1 / 63)
        assert hits["two"].raw["rrf"] == pytest.approx(1 / 62 + 1 / 61)
        assert hits["three"].raw["rrf"] == pytest.approx(1 / 63 + 1 / 65)
        assert hits["four"].raw["rrf"] == pytest.approx(1 / 62)
        assert hits["five"].raw["rrf"] == pytest.approx(1 / 64)
        assert list(hits) == ["two", "one", "three", "four", "five"]

    def test_nothing_else_counts(self, path: Path) -> None:
        """Neither age nor sector nor salience nor doubt: `no tuning`."""
        with opened(path, "rank") as memory:
            memory.add(
                "@1.0 badger badger first",
                sector="episodic",
                salience=0.0,
                created_at=days_before(1000),
                facts=[{"text": "x", "confidence": 0.1}],
            )
            memory.add("@0.5 badger second", sector="reflective", salience=1.0, created_at=days_before(0))

            results = memory.search("badger", as_of=MOMENT)

        assert [hit.score for hit in results] == pytest.approx([1.0, 61 / 62], abs=EXACT)
        assert [set(hit.trace) for hit in results] == [{"keyword", "vector"}] * 2


class TestNotes:
    """tars: the sum of 1/(60 + rank), divided by n_lists/(60 + 1)."""

    TEXTS = (
        "@0.9 badger wood wood two",
        "@0.5 badger badger wood one",
        "@0.8 otter wood wood three",
        "@0.1 badger alone four",
    )

    def test_every_hit_of_both_lists(self, path: Path) -> None:
        with opened(path, "notes") as memory:
            memory.add_many(self.TEXTS)

            results = memory.search("badger wood")

        hits = by_name(results)
        most = 2 / 61
        assert {name: hit.score for name, hit in hits.items()} == pytest.approx(
            {
                "two": (1 / 62 + 1 / 61) / most,
                "one": (1 / 61 + 1 / 63) / most,
                "three": (1 / 62) / most,
                "four": (1 / 64) / most,
            },
            abs=EXACT,
        )
        assert list(hits) == ["two", "one", "three", "four"]

    @pytest.mark.parametrize(("mode", "order"), [("fts", ["one", "two"]), ("vec", ["two", "three", "one", "four"])])
    def test_a_single_list_is_divided_by_one_list(self, path: Path, mode: str, order: list[str]) -> None:
        with opened(path, "notes") as memory:
            memory.add_many(self.TEXTS)

            results = memory.search("badger wood", mode=mode)

        assert list(by_name(results)) == order
        assert [hit.score for hit in results] == pytest.approx(
            [61 / (60 + place) for place in range(1, len(order) + 1)]
        )

    def test_the_threshold_of_its_startup_search(self, path: Path) -> None:
        """min_score .25 on this scale: what one of two lists has in its last places falls below only far down."""
        with opened(path, "notes") as memory:
            memory.add_many(self.TEXTS)

            assert len(memory.search("badger wood", min_score=0.25)) == 4
            assert len(memory.search("badger wood", min_score=0.49)) == 3
            assert memory.search("badger wood", min_score=0.49).hidden == {"min_score": 1}


class TestSemanticFirst:
    """AgentStack: what is at least .7 near, by similarity; then what the words find, by min(1, bm25/10)."""

    def test_every_hit(self, path: Path) -> None:
        with opened(path, "semantic-first") as memory:
            fill(memory)
            memory.add_many(
                [
                    "@0.95 otter one",
                    "@0.75 badger two",
                    "@0.7 weasel three",
                    "@0.69 badger badger four",
                    "@0.1 badger wood wood wood five",
                    "@0.5 weasel six",
                ]
            )

            results = memory.search("badger")

        hits = by_name(results)
        assert list(hits) == ["one", "two", "three", "four", "five"]
        for name in ("one", "two", "three"):
            assert hits[name].score == pytest.approx(hits[name].similarity or 0, abs=EXACT)
            assert hits[name].match == ("vector",)
        lowest = hits["three"].similarity or 0
        for name in ("four", "five"):
            keyword = min(1.0, (hits[name].keyword_score or 0) / 10)
            assert 0.1 < keyword < 1
            assert hits[name].score == pytest.approx(lowest * keyword, abs=EXACT)
            assert hits[name].match == ("fts",)

    def test_the_cosines_are_where_they_were_put(self, path: Path) -> None:
        with opened(path, "semantic-first") as memory:
            memory.add_many(["@1.0 one", "@0.9 two", "@0.8 three"])

            assert [hit.score for hit in memory.search("badger")] == pytest.approx([1.0, 0.9, 0.8], abs=1e-3)

    def test_words_alone_have_the_whole_scale(self, path: Path) -> None:
        with opened(path, "semantic-first") as memory:
            fill(memory)
            memory.add("@0.1 badger one")

            (hit,) = memory.search("badger")

        assert hit.score == pytest.approx((hit.keyword_score or 0) / 10, abs=EXACT)

    def test_nothing_else_counts(self, path: Path) -> None:
        with opened(path, "semantic-first") as memory:
            memory.add("@1.0 one", sector="episodic", salience=0.0, created_at=days_before(1000), facts=["x"])

            (hit,) = memory.search("badger", as_of=MOMENT)

        assert hit.score == 1.0
        assert set(hit.trace) == {"vector"}

    def test_a_superseded_one_has_half(self, path: Path) -> None:
        with opened(path, "semantic-first") as memory:
            old, new = memory.add("@1.0 old"), memory.add("@0.8 new")
            memory.supersede(old.id, new.id)

            hits = by_name(memory.search("badger", include_superseded=True))

        assert hits["old"].score == pytest.approx(0.5)
        assert hits["new"].score == pytest.approx(0.8, abs=1e-3)
        assert list(hits) == ["new", "old"]

    def test_a_superseded_one_does_not_stay_before_better_scores(self, path: Path) -> None:
        """`The tail's scores are scaled [...] so that the order is also the order of the scores`."""
        with opened(path, "semantic-first") as memory:
            old, new = memory.add("@0.8 old"), memory.add("@0.9 new")
            memory.add("@0.1 badger")
            memory.supersede(old.id, new.id)

            scores = [hit.score for hit in memory.search("badger", include_superseded=True, bm25_norm="max")]

        assert len(scores) == 3
        assert scores == sorted(scores, reverse=True)
