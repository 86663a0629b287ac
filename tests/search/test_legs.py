"""The legs return whatever the store finds; only a floor leaves anything out."""

import numpy as np

import memorist


class OppositeEmbedder:
    """Gives texts and queries opposite vectors."""

    model_id, dimensions = "opposite", 64

    def embed(self, texts: list[str]) -> list[list[float]]:
        return [self._vector(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return [-value for value in self._vector(text.removeprefix("not "))]

    def _vector(self, text: str) -> list[float]:
        vector = np.random.default_rng(len(text)).normal(size=64)
        return list(vector / np.linalg.norm(vector))


def test_without_a_floor_even_an_opposite_vector_is_a_match() -> None:
    with memorist.open(":memory:", embedder=OppositeEmbedder(), profile="rank") as memory:
        texts = ["x" * length for length in range(1, 120)]
        memory.add_many(texts)

        found = [memory.search(f"not {text}", mode="semantic", limit=200) for text in texts]

    assert [len(results) for results in found] == [len(texts)] * len(texts)
