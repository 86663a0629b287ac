"""An embedding model for tests: how similar a text is to every question is written into the text."""

import math
from collections.abc import Sequence


class CosineEmbedder:
    """`@0.8 some text` has a cosine of 0.8 with any question; with `steps`, `@3 some text` lies 0.3 radians away."""

    model_id, dimensions = "placed-2", 2

    def __init__(self, *, steps: bool = False) -> None:
        self._steps = steps

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [self._one(text) for text in texts]

    def _one(self, text: str) -> list[float]:
        number = float(text[1:].split()[0]) if text.startswith("@") else None
        if self._steps:
            return [math.cos(0.1 * (number or 0.0)), math.sin(0.1 * (number or 0.0))]
        cosine = 1.0 if number is None else number
        return [cosine, (1 - cosine * cosine) ** 0.5]
