"""Models that do not come along: what they are, and where they are looked for."""

import hashlib
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from memorist.embed.onnx_session import load
from memorist.errors import EmbedderUnavailable

MODEL, VOCABULARY = "model.onnx", "vocab.txt"
_UNCASED_BERT = "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"  # the vocabulary of all of them


@dataclass(frozen=True, slots=True)
class OptionalModel:
    """A model that can be added: a folder with its files, as a distribution of its own or copied by hand."""

    name: str
    what: str
    licence: str
    sums: Mapping[str, str]

    @property
    def distribution(self) -> str:
        return f"memorist-{self.name}"

    @property
    def cure(self) -> str:
        """How to get it, in words that can follow a comma."""
        return f"`pip install {self.distribution}` adds it (from a checkout: `pip install ./models/{self.name}`)"

    def own_place(self) -> Path:
        """Where it is copied to, among the user's data."""
        from platformdirs import user_data_path

        return user_data_path("memorist", appauthor=False) / "models" / self.name

    def find(self, folder: Path | None = None) -> Path | None:
        """Where it is: installed, in the user's data, or in a folder of models."""
        spec = importlib.util.find_spec(self.distribution.replace("-", "_"))
        installed = list(spec.submodule_search_locations or ()) if spec else []
        places = [*map(Path, installed), self.own_place(), *([folder / self.name] if folder else [])]
        return next((place for place in places if (place / MODEL).is_file()), None)

    def load(self, folder: Path | None = None) -> Any:
        """Its onnxruntime session; EmbedderUnavailable, with the cure, where it is nowhere or not whole."""
        place = self.find(folder)
        if place is None:
            raise EmbedderUnavailable(f"{self.distribution} is not installed; {self.cure}")
        return load(place, self.sums, self.distribution, f"install it again: {self.cure}")

    def is_in(self, folder: Path) -> bool:
        """Whether a folder holds it, whole."""
        return all(
            (folder / name).is_file() and hashlib.sha256((folder / name).read_bytes()).hexdigest() == sha256
            for name, sha256 in self.sums.items()
        )


OPTIONAL_MODELS: Mapping[str, OptionalModel] = MappingProxyType(
    {
        each.name: each
        for each in (
            OptionalModel(
                "bge-small",
                "bge-small-en-v1.5 in int8: text as vectors, better and slower",
                "MIT",
                {
                    MODEL: "68807e3ff2abb83cdd708d8243fd398246e397bfee2ba611c2bad728e27df743",
                    VOCABULARY: _UNCASED_BERT,
                },
            ),
            OptionalModel(
                "reranker",
                "ms-marco-MiniLM-L-12-v2 in int8: reads a question and a passage together",
                "Apache-2.0",
                {
                    MODEL: "1225ccd6afd0f1b43a1b08bf67cd1cb68c05aafb443e9d8450015b8b3837ffd1",
                    VOCABULARY: _UNCASED_BERT,
                },
            ),
        )
    }
)
