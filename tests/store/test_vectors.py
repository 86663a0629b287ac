"""The vector scan finds exactly what brute force over the same codes finds, whatever was put or removed before."""

import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memorist.store import vector_scan
from memorist.store.vector_scan import VectorScan, compare, encode, pack, unpack

RNG = np.random.default_rng(7)


def clustered(count: int, dimensions: int = 384) -> Any:
    """Unit vectors that crowd around a few directions, as those of texts do."""
    centres = RNG.normal(size=(20, dimensions))
    raw = centres[RNG.integers(0, 20, count)] + RNG.normal(0, 0.8, (count, dimensions))
    return (raw / np.linalg.norm(raw, axis=1, keepdims=True)).astype(np.float32)


def loaded(unit: Any) -> VectorScan:
    scan = VectorScan(unit.shape[1])
    scan.load([(np.arange(len(unit)), encode(unit))], len(unit))
    return scan


def brute_force(codes: dict[int, Any], query: Any, k: int) -> list[tuple[int, float]]:
    """The specification: cosine of the codes, best first, ties by lower key."""

    def length(code: Any) -> np.float32:
        square = int((code.astype(int) ** 2).sum())
        return np.float32(1 / square**0.5 if square else 0)

    asked = encode(query[np.newaxis])[0]
    found = [
        (key, float(np.float32(code.astype(int) @ asked.astype(int)) * length(code) * length(asked)))
        for key, code in codes.items()
    ]
    return sorted(found, key=lambda hit: (-hit[1], hit[0]))[:k]


def hits(found: tuple[Any, Any]) -> list[tuple[int, float]]:
    return list(zip(found[0].tolist(), found[1].tolist(), strict=True))


def widen(vectors: Any) -> Any:
    """Vectors of so many dimensions that they are rounded, of which only the first few are not 0."""
    return np.pad(np.array(vectors, np.float32).reshape(-1, 3), ((0, 0), (0, 125)))


KEYS = st.lists(st.integers(0, 60), max_size=40)
VECTOR = st.lists(st.integers(-3, 3), min_size=3, max_size=3)  # so few that ties and zero vectors are common
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.lists(st.tuples(st.integers(0, 60), VECTOR), max_size=40)),
        st.tuples(st.just("load"), st.lists(st.tuples(st.integers(0, 60), VECTOR), max_size=40)),
        st.tuples(st.just("remove"), KEYS),
    ),
    max_size=12,
)


@given(steps=STEPS, query=VECTOR, k=st.integers(0, 70), among=KEYS)
def test_any_sequence_of_writes_is_searched_as_brute_force_would(steps: Any, query: Any, k: int, among: Any) -> None:
    scan, model, asked = VectorScan(128), {}, widen([query])[0]
    for verb, given_rows in steps:
        if verb == "remove":
            scan.remove(given_rows)
            model = {key: code for key, code in model.items() if key not in given_rows}
            continue
        rows = given_rows if verb == "put" else sorted(dict(given_rows).items())
        keys = np.array([key for key, _ in rows], np.int64)
        raw = widen([vector for _, vector in rows]).astype(np.float16)
        if verb == "load":
            scan.load([(keys, encode(raw))], len(keys))
            model = {}
        else:
            scan.put(keys, raw)
        model |= dict(zip(keys.tolist(), encode(raw), strict=True))

        assert hits(scan.find_nearest(asked, k)) == brute_force(model, asked, k)

    some = {key: code for key, code in model.items() if key in among}
    assert len(scan) == len(model)
    assert hits(scan.find_nearest(asked, k)) == brute_force(model, asked, k)
    assert hits(scan.find_nearest(asked, k, among)) == brute_force(some, asked, k)
    rest = {key: code for key, code in model.items() if key not in among}
    assert hits(scan.find_nearest(asked, k, without=among)) == brute_force(rest, asked, k)


def test_the_best_of_many_are_found_among_thousands_of_ties() -> None:
    keys = RNG.permutation(5000)
    scores = RNG.integers(0, 40, 5000).astype(np.float32)
    exact = np.lexsort((keys, -scores))

    for k in (1, 7, 50, 300, 4999, 5000):
        found, best = vector_scan._select_best(keys, scores, k)

        assert found.tolist() == keys[exact[:k]].tolist()
        assert best.tolist() == scores[exact[:k]].tolist()


def test_codes_lose_almost_nothing_of_the_exact_ranking() -> None:
    unit = clustered(3000)
    scan = loaded(unit)
    kept = 0
    for query in clustered(20):
        exact = np.argsort(-(unit @ query))[:20]
        keys, similarities = scan.find_nearest(query, 20)
        kept += len(set(keys.tolist()) & set(exact.tolist()))
        np.testing.assert_allclose(similarities, unit[keys] @ query, atol=0.01)

    assert kept / 400 >= 0.97


def test_a_vector_is_most_similar_to_itself() -> None:
    unit = clustered(200)
    scan = loaded(unit)

    keys, similarities = scan.find_nearest(unit[17], 1)

    assert keys.tolist() == [17]
    assert similarities[0] == pytest.approx(1, abs=1e-6)


def test_vectors_of_few_dimensions_are_compared_as_they_are_stored() -> None:
    unit = clustered(200, 5).astype(np.float16)
    scan, query = loaded(unit), clustered(1, 5)[0]

    keys, similarities = scan.find_nearest(query, 200)

    exact = unit.astype(np.float64) @ query.astype(np.float64)
    assert similarities == pytest.approx(exact[keys], abs=1e-7)
    assert similarities.tolist() == sorted(similarities.tolist(), reverse=True)


@pytest.mark.parametrize("dimensions", [5, 384])
def test_a_similarity_is_the_same_in_the_scan_and_of_a_vector_that_was_read(dimensions: int) -> None:
    unit, query = clustered(300, dimensions).astype(np.float16), clustered(1, dimensions)[0]
    keys, similarities = loaded(unit).find_nearest(query, 300)

    for key, similarity in zip(keys.tolist(), similarities.tolist(), strict=True):
        assert compare(query, encode(unit[key : key + 1])).tolist() == [similarity]


def test_an_empty_scan_finds_nothing() -> None:
    scan, query = VectorScan(8), np.ones(8, np.float32)

    assert len(scan) == 0
    assert hits(scan.find_nearest(query, 5)) == []
    assert hits(scan.find_nearest(query, 5, [1, 2])) == []
    scan.remove([1])
    scan.put([], np.empty((0, 8), np.float16))
    assert len(scan) == 0


def test_when_fewer_are_there_than_asked_for_all_come_back() -> None:
    scan = loaded(clustered(3))

    assert len(scan.find_nearest(clustered(1)[0], 50)[0]) == 3
    assert len(scan.find_nearest(clustered(1)[0], 50, [2, 99])[0]) == 1
    assert len(scan.find_nearest(clustered(1)[0], 0)[0]) == 0


@pytest.mark.parametrize("share", [0.01, 0.1, 0.2, 0.9, 1.0])
def test_a_filter_fills_its_page_whatever_its_share(share: float) -> None:
    unit = clustered(4000, 32)
    scan, query = loaded(unit), clustered(1, 32)[0]
    chosen = RNG.permutation(4000)[: int(4000 * share)]
    everything = scan.find_nearest(query, 4000)[0]

    keys, _ = scan.find_nearest(query, 40, np.concatenate([chosen, [-5, 10**12], chosen[:3]]))

    assert keys.tolist() == everything[np.isin(everything, chosen)][:40].tolist()
    assert len(keys) == 40


def test_removed_rows_are_cleared_away_once_they_are_many() -> None:
    unit = clustered(1000, 32)
    scan = loaded(unit)

    scan.remove(np.arange(0, 1000, 2))

    assert scan._state.count == len(scan) == 500
    assert set(scan.find_nearest(unit[0], 1000)[0].tolist()) == set(range(1, 1000, 2))


def test_appended_rows_seldom_move_those_before_them() -> None:
    scan, moves = VectorScan(4), 0
    for key in range(3000):
        before = scan._state.codes
        scan.put([key], np.ones((1, 4), np.float16))
        moves += scan._state.codes is not before

    assert moves <= 5
    assert len(scan) == 3000


def test_a_search_never_sees_half_of_a_write() -> None:
    keys, left, right = np.arange(64), np.eye(8, dtype=np.float16)[0], np.eye(8, dtype=np.float16)[1]
    scan, query = VectorScan(8), left.astype(np.float32)
    scan.put(keys, np.tile(left, (64, 1)))

    def write() -> None:
        for turn in range(300):
            scan.put(keys[::-1], np.tile(left if turn % 2 else right, (64, 1)))
            scan.put([100 + turn], -left[np.newaxis])
            scan.remove([100 + turn // 2])

    def search() -> int:
        torn = 0
        for _ in range(300):
            found, similarities = scan.find_nearest(query, 64, keys)
            best, _ = scan.find_nearest(query, 64)
            torn += found.tolist() != keys.tolist() or len(set(similarities.tolist())) != 1
            torn += best.tolist() != keys.tolist()
        return torn

    with ThreadPoolExecutor(4) as pool:
        writer = pool.submit(write)
        searches = [pool.submit(search) for _ in range(3)]
        writer.result()
        assert [job.result() for job in searches] == [0, 0, 0]


def test_an_array_taken_over_by_load_is_never_written() -> None:
    codes = encode(clustered(10, 8))
    before = codes.copy()
    scan = VectorScan(8)
    scan.load([(np.arange(10), codes)], 10)

    scan.put([3, 11], np.ones((2, 8), np.float16))
    scan.remove([4])

    assert (codes == before).all()


def test_codes_of_a_row_do_not_depend_on_its_neighbours() -> None:
    unit = clustered(100).astype(np.float16)

    assert (encode(unit)[40:41] == encode(unit[40:41])).all()
    assert (np.abs(encode(unit)).max(axis=1) == 127).all()
    assert encode(np.zeros((1, 4), np.float16)).tolist() == [[0, 0, 0, 0]]


@pytest.mark.parametrize("rows", [0, 1, 1024])
def test_a_packed_block_comes_back_as_views_and_can_be_loaded(rows: int) -> None:
    keys, codes = np.arange(rows) * 3 - 2**40, encode(clustered(rows, 5))
    blob = pack(keys, codes)

    again = unpack(blob, 5)

    assert len(blob) == rows * (8 + 2 * 5)
    assert (again[0] == keys).all()
    assert (again[1] == codes).all()
    assert not again[1].flags.owndata
    scan = VectorScan(5)
    scan.load([again], len(again[0]))
    scan.put([7], np.ones((1, 5), np.float16))
    assert len(scan) == rows + 1


def test_a_damaged_block_is_refused() -> None:
    blob = pack(np.arange(10), encode(clustered(10, 5)))

    for damaged in (blob[:-1], blob + b"x", blob[:100]):
        with pytest.raises(ValueError, match="whole rows"):
            unpack(damaged, 5)


def test_shapes_that_do_not_fit_are_refused_and_change_nothing() -> None:
    scan = loaded(clustered(4, 8))

    with pytest.raises(ValueError, match="fit"):
        scan.put([1], np.ones((1, 7), np.float16))
    with pytest.raises(ValueError, match="fit"):
        scan.load([(np.arange(2), np.ones((2, 7), np.int8))], 2)
    with pytest.raises(ValueError, match="ascend"):
        scan.load([(np.array([1, 1]), np.ones((2, 8), np.int8))], 2)
    with pytest.raises(ValueError, match="compared"):
        scan.find_nearest(np.ones(7, np.float32), 1)
    with pytest.raises(ValueError, match="fit"):
        pack(np.arange(3), np.ones((2, 8), np.int8))
    assert len(scan) == 4


@pytest.mark.parametrize("dimensions", [1, 3, 65, 384, 8192])
def test_numpy_alone_gives_the_same_numbers(dimensions: int, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("simsimd")
    fast, fast_squares = vector_scan._load_kernels()
    monkeypatch.setitem(sys.modules, "simsimd", None)
    plain, plain_squares = vector_scan._load_kernels()
    codes = RNG.integers(-127, 128, (2500, dimensions), dtype=np.int8)
    codes[:500] = RNG.integers(100, 128, (500, dimensions))  # sums that float32 cannot add up exactly

    assert plain is not fast
    for code in (codes[0], codes[5]):
        assert (plain(code, codes) == fast(code, codes)).all()
    assert len(plain(codes[0], codes[:0])) == len(fast(codes[0], codes[:0])) == 0
    assert plain_squares is not fast_squares
    for some in (codes, codes[:2], codes[:1], codes[:0]):
        assert (plain_squares(some) == fast_squares(some)).all()


def test_searches_leave_the_reference_count_of_none_alone() -> None:
    scan, query = loaded(clustered(10, 8)), np.ones(8, np.float32)
    before = sys.getrefcount(None)

    for _ in range(1000):
        scan.find_nearest(query, 3)

    assert sys.getrefcount(None) > before - 500
