"""Fusion by worked examples: the numbers the source documents promise."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from candidates import Found, Ranked, keys, list_ranked, to_candidates
from memorist.profiles import PROFILES
from memorist.profiles.profile import Profile, Recency
from memorist.search.fusion import long_text_share, rank_candidates

NOW = 1_800_000_000.0
DAY = 86_400.0


def fused(found: list[Found], profile: str | Profile, **replaced: object) -> list[Ranked]:
    base = PROFILES[profile] if isinstance(profile, str) else profile
    ranking = rank_candidates(to_candidates(found), replace(base, **replaced), NOW)
    return list_ranked(ranking, found)


def legs(keyword: list[int], vector: list[int]) -> list[Found]:
    """Candidates from two ranked lists of keys, scores falling with the rank."""
    return [
        Found(
            key,
            bm25=10.0 - keyword.index(key) if key in keyword else None,
            keyword_rank=keyword.index(key) + 1 if key in keyword else 0,
            similarity=0.9 - 0.1 * vector.index(key) if key in vector else None,
            vector_rank=vector.index(key) + 1 if key in vector else 0,
            created_at=NOW,
        )
        for key in dict.fromkeys([*keyword, *vector])
    ]


class TestReciprocalRankFusion:
    def test_two_lists_are_merged_by_the_sum_of_reciprocal_ranks(self) -> None:
        best, *rest = fused(legs([7, 3], [3, 9]), "rank")

        assert best.key == 3
        assert best.raw["rrf"] == pytest.approx(1 / 61 + 1 / 62)
        assert {entry.key: entry.raw["rrf"] for entry in rest} == pytest.approx({7: 1 / 61, 9: 1 / 62})

    def test_an_overlapping_result_outranks_single_ones_at_similar_ranks(self) -> None:
        assert keys(fused(legs([1, 2], [3, 2]), "rank"))[0] == 2

    def test_disjoint_lists_are_both_kept_and_ties_go_to_the_lower_key(self) -> None:
        assert keys(fused(legs([5, 6], [1, 2]), "rank")) == [1, 5, 2, 6]

    def test_first_in_both_lists_scores_exactly_one(self) -> None:
        assert fused(legs([4], [4]), "notes")[0].score == pytest.approx(1.0)

    def test_a_single_list_is_normalised_too(self) -> None:
        assert fused(legs([4, 5], []), "notes")[0].score == pytest.approx(1.0)

    def test_a_larger_k_brings_neighbouring_ranks_closer(self) -> None:
        steep = fused(legs([1, 2], []), "rank", k=1)
        flat = fused(legs([1, 2], []), "rank", k=1000)

        assert steep[0].score - steep[1].score > flat[0].score - flat[1].score

    def test_alpha_zero_is_the_keyword_list_alone(self) -> None:
        assert keys(fused(legs([1, 2], [3, 2]), "confidence", alpha=0.0)) == [1, 2]

    def test_alpha_one_is_the_vector_list_alone(self) -> None:
        assert keys(fused(legs([1, 2], [3, 2]), "confidence", alpha=1.0)) == [3, 2]

    def test_a_leg_that_missed_a_result_can_count_it_one_place_behind_its_last(self) -> None:
        ranked = {e.key: e.raw["rrf"] for e in fused(legs([1], [2, 3]), "rank", missing="penalty")}

        assert ranked[1] == pytest.approx(1 / 61 + 1 / 63)
        assert ranked[2] == pytest.approx(1 / 62 + 1 / 61)

    def test_nothing_in_is_nothing_out(self) -> None:
        assert fused([], "rank") == []


class TestLinear:
    def test_the_worked_example_with_the_source_weights(self) -> None:
        candidate = Found(
            1, bm25=5.0, keyword_rank=1, similarity=0.8, vector_rank=1,
            created_at=NOW - 10 * DAY, salience=0.6, sector="procedural",
        )  # fmt: skip

        (only,) = fused([candidate], "salience")

        assert only.score == pytest.approx(0.4 * 0.8 + 0.25 * 0.5 + 0.2 * 0.6 + 0.15 * math.exp(-0.5))

    def test_sectors_are_ordered_by_their_boosts(self) -> None:
        candidates = [
            Found(number, bm25=5.0, keyword_rank=number, created_at=NOW, sector=sector)
            for number, sector in enumerate(["episodic", "emotional", "procedural", "semantic", "reflective"], 1)
        ]

        ranked = fused(candidates, "salience")

        assert [e.candidate.sector for e in ranked] == [
            "reflective",
            "semantic",
            "procedural",
            "emotional",
            "episodic",
        ]
        assert ranked[0].score / ranked[2].score == pytest.approx(1.2)

    def test_an_unknown_sector_is_neither_raised_nor_lowered(self) -> None:
        (only,) = fused([Found(1, bm25=5.0, keyword_rank=1, sector="dreams")], "salience")

        assert "sector" not in only.trace

    def test_a_superseded_memory_counts_half(self) -> None:
        new, old = fused(
            [
                Found(1, bm25=5.0, keyword_rank=1, created_at=NOW, sector="procedural"),
                Found(2, bm25=5.0, keyword_rank=2, created_at=NOW, sector="procedural", superseded=True),
            ],
            "salience",
        )

        assert old.score == pytest.approx(new.score / 2)

    def test_the_score_is_clamped_to_one(self) -> None:
        best = Found(1, 50.0, 1, similarity=1.0, vector_rank=1, created_at=NOW, salience=1.0, sector="reflective")

        (only,) = fused([best], "salience")

        assert only.score == pytest.approx(1.0)
        assert only.raw["sum"] == pytest.approx(1.0)
        assert only.trace["clamp"] < 0

    def test_weights_can_be_replaced(self) -> None:
        weights = replace(PROFILES["salience"].weights, semantic=0.0, keyword=1.0, salience=0.0, recency=0.0)

        candidate = Found(1, 5.0, 1, similarity=0.9, vector_rank=1, created_at=NOW, sector="procedural")
        (only,) = fused([candidate], "salience", weights=weights)

        assert only.score == pytest.approx(0.5)


class TestVectorFirst:
    def test_what_only_words_found_comes_after_what_vectors_found(self) -> None:
        ranked = fused(legs([1, 2, 3], [3, 4]), "semantic-first")

        assert keys(ranked) == [3, 4, 1, 2]
        assert [entry.score for entry in ranked] == sorted((entry.score for entry in ranked), reverse=True)

    def test_words_carry_it_alone_where_vectors_found_nothing(self) -> None:
        assert keys(fused(legs([1, 2], []), "semantic-first")) == [1, 2]

    def test_the_strict_form_has_no_tail(self) -> None:
        assert keys(fused(legs([1, 2], [4]), "semantic-first", strict_fallback=True)) == [4]


class TestConvex:
    def test_the_score_is_the_weighted_sum_of_scaled_bm25_and_cosine(self) -> None:
        first, second = fused(
            [Found(1, bm25=4.0, keyword_rank=2, similarity=0.5), Found(2, bm25=8.0, keyword_rank=1)],
            "balanced",
            alpha=0.4,
        )

        assert (first.key, first.score) == (2, pytest.approx(0.6))
        assert second.score == pytest.approx(0.6 * 0.5 + 0.4 * 0.5)

    def test_memories_with_all_words_come_before_those_with_some(self) -> None:
        ranked = fused(
            [
                Found(1, bm25=9.0, keyword_rank=2),
                Found(2, bm25=1.0, keyword_rank=1, has_all_words=True),
            ],
            "balanced",
            alpha=0.0,
        )

        assert keys(ranked) == [2, 1]

    def test_alpha_at_its_ends_is_one_leg_alone(self) -> None:
        assert keys(fused(legs([1, 2], [3, 2]), "balanced", alpha=0.0)) == [1, 2]
        assert keys(fused(legs([1, 2], [3, 2]), "balanced", alpha=1.0)) == [3, 2]

    @pytest.mark.parametrize(
        ("norm", "scaled"),
        [
            ("max", [1, 0.5, 0.25]),
            ("minmax", [1, 1 / 3, 0]),
            ("abs10", [0.8, 0.4, 0.2]),
            ("tanh10", [math.tanh(0.8), math.tanh(0.4), math.tanh(0.2)]),
            ("rank", [1, 1 / 2, 1 / 3]),
        ],
    )
    def test_bm25_can_be_brought_to_one_scale_in_several_ways(self, norm: str, scaled: list[float]) -> None:
        found = [Found(place, bm25=bm25, keyword_rank=place) for place, bm25 in enumerate((8.0, 4.0, 2.0), 1)]

        ranked = fused(found, "balanced", alpha=0.0, bm25_norm=norm)

        assert keys(ranked) == [1, 2, 3]
        assert [entry.score for entry in ranked] == pytest.approx(scaled)

    def test_a_leg_whose_best_stands_out_counts_for_more_than_one_whose_matches_are_all_alike(self) -> None:
        alike = [Found(n, bm25=5.0 - n / 100, keyword_rank=n) for n in range(1, 13)]
        clear = [Found(20 + n, similarity=0.8 if n == 0 else 0.2, vector_rank=n + 1) for n in range(12)]

        by_meaning = fused([*alike, *clear], "balanced")
        by_words = fused([*alike, *clear], "balanced", alpha=0.2, weigh_by_clarity=False)

        assert keys(by_meaning)[0] == 20
        assert keys(by_words)[0] == 1

    def test_what_has_no_further_match_beside_it_stands_out_as_far_as_can_be(self) -> None:
        (word, near) = fused([Found(1, bm25=2.0, keyword_rank=1), Found(2, similarity=0.6, vector_rank=1)], "balanced")

        assert {word.key: word.score, near.key: near.score} == {
            1: pytest.approx(0.2),
            2: pytest.approx(0.8 * 0.6),
        }

    @pytest.mark.parametrize("tied", ["words", "meaning"])
    def test_a_leg_whose_matches_are_all_alike_keeps_them(self, tied: str) -> None:
        alike = [
            Found(n, bm25=5.0, keyword_rank=n) if tied == "words" else Found(n, similarity=0.4, vector_rank=n)
            for n in range(1, 13)
        ]
        other = Found(
            20, **({"similarity": 0.8, "vector_rank": 1} if tied == "words" else {"bm25": 5.0, "keyword_rank": 1})
        )

        assert sorted(keys(fused([*alike, other], "balanced"))) == [*range(1, 13), 20]

    def test_what_the_assistant_said_counts_for_less_than_what_the_user_did(self) -> None:
        user, assistant = fused(
            [
                Found(1, similarity=0.5, vector_rank=1, role="assistant"),
                Found(2, similarity=0.5, vector_rank=2, role="user"),
            ],
            "balanced",
        )

        assert (user.key, assistant.key) == (2, 1)
        assert assistant.score == pytest.approx(0.8 * user.score)
        assert assistant.trace["assistant"] == pytest.approx(-0.2 * user.score)


class TestRecency:
    def test_a_fresh_memory_gets_the_whole_factor_and_an_old_one_little(self) -> None:
        fresh, old = fused(
            [
                Found(1, bm25=1.0, keyword_rank=1, recorded_at=NOW),
                Found(2, bm25=1.0, keyword_rank=1, recorded_at=NOW - 9 * DAY),
            ],
            "confidence",
        )

        assert fresh.score / old.score == pytest.approx((1 + 0.1) / (1 + 0.1 / 10))

    def test_a_weight_of_zero_switches_it_off(self) -> None:
        recency = replace(PROFILES["confidence"].recency, weight=0.0)

        ranked = fused(legs([1, 2], []), "confidence", recency=recency)

        assert all("recency" not in entry.trace for entry in ranked)

    @pytest.mark.parametrize(("days", "factor"), [(0, 1.10), (1, 1.10), (2, 1.05), (7, 1.05), (30, 1.02), (31, 1.0)])
    def test_it_can_come_in_tiers_of_a_day_a_week_and_a_month(self, days: float, factor: float) -> None:
        candidate = Found(1, bm25=1.0, keyword_rank=1, created_at=NOW - days * DAY)

        (only,) = fused([candidate], "rank", recency=Recency("tiers"))

        assert only.score == pytest.approx(factor / 1.10)

    def test_a_memory_from_the_future_counts_as_new(self) -> None:
        (only,) = fused([Found(1, bm25=1.0, keyword_rank=1, created_at=NOW + 100 * DAY)], "confidence")

        assert only.score <= 1.0


candidates = st.lists(
    st.builds(
        Found,
        key=st.integers(1, 1000),
        bm25=st.none() | st.floats(0, 50),
        keyword_rank=st.just(0) | st.integers(1, 50),
        similarity=st.none() | st.floats(-1, 1),
        vector_rank=st.just(0) | st.integers(1, 50),
        created_at=st.floats(NOW - 1e8, NOW),
        salience=st.floats(0, 1),
        sector=st.sampled_from(["reflective", "semantic", "episodic", "other"]),
        superseded=st.booleans(),
        confidence=st.floats(0, 1),
    ).filter(lambda c: (c.bm25 is None) == (c.keyword_rank == 0)),
    unique_by=lambda c: c.key,
    max_size=20,
)


@given(candidates, st.sampled_from(sorted(PROFILES)))
def test_every_score_lies_within_0_and_1_and_is_the_sum_of_its_trace(found: list[Found], profile: str) -> None:
    for entry in fused(found, profile):
        assert 0.0 <= entry.score <= 1.0
        assert math.fsum(entry.trace.values()) == pytest.approx(entry.score, abs=1e-9)


@given(candidates, st.sampled_from(sorted(PROFILES)), st.randoms())
def test_the_order_does_not_depend_on_the_order_of_arrival(found: list[Found], profile: str, random: object) -> None:
    shuffled = list(found)
    random.shuffle(shuffled)  # type: ignore[attr-defined]

    assert keys(fused(found, profile)) == keys(fused(shuffled, profile))


@given(st.floats(0, 100), st.floats(0, 100), st.sampled_from(["max", "abs10", "tanh10"]))
def test_a_better_keyword_match_never_scores_lower(a: float, b: float, norm: str) -> None:
    low, high = sorted((a, b))
    ranked = fused(
        [Found(1, bm25=low, keyword_rank=2), Found(2, bm25=high, keyword_rank=1)],
        "balanced",
        bm25_norm=norm,
    )
    scores = {entry.key: entry.score for entry in ranked}

    assert scores.get(2, 0.0) >= scores.get(1, 0.0)


def test_how_long_texts_are_does_not_depend_on_how_many_are_wanted() -> None:
    few = [Found(key, vector_rank=key, length=1_000) for key in range(1, 21)]
    more = [Found(key, vector_rank=key, length=50) for key in range(21, 300)]

    assert long_text_share(to_candidates(few)) == long_text_share(to_candidates([*few, *more])) == 1.0
    assert long_text_share(to_candidates([])) == long_text_share(to_candidates(more)) == 0.0
