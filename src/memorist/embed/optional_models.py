"""Optional models: their checksums, and the folders in which they are looked for.

They have the vocabulary of the bundled model, so a folder holds the weights alone.
"""

import hashlib
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from memorist.embed.onnx_session import load_session
from memorist.errors import EmbedderUnavailable

MODEL = "model.onnx"


@dataclass(frozen=True, slots=True)
class OptionalModel:
    """A model that can be added: a folder with its files, as a distribution of its own or copied by hand."""

    name: str
    description: str
    licence: str
    checksums: Mapping[str, str]  # sha256 by the name of a file

    @property
    def distribution(self) -> str:
        return f"memorist-{self.name}"

    @property
    def install_hint(self) -> str:
        """A hint on how to install it, in words that can follow a comma."""
        return f"`pip install {self.distribution}` adds it (from a checkout: `pip install ./models/{self.name}`)"

    def user_folder(self) -> Path:
        """Return the folder in the user's data that `memorist models add` copies it to."""
        from platformdirs import user_data_path

        return user_data_path("memorist", appauthor=False) / "models" / self.name

    def find(self, models: Path | None = None) -> Path | None:
        """Return its folder: installed, in the user's data, or in a folder of models."""
        spec = importlib.util.find_spec(self.distribution.replace("-", "_"))
        installed = list(spec.submodule_search_locations or ()) if spec else []
        folders = [*map(Path, installed), self.user_folder(), *([models / self.name] if models else [])]
        return next((folder for folder in folders if (folder / MODEL).is_file()), None)

    def load(self, models: Path | None = None) -> Any:
        """Return its onnxruntime session; EmbedderUnavailable, with a hint, where it is missing or damaged."""
        folder = self.find(models)
        if folder is None:
            raise EmbedderUnavailable(f"{self.distribution} is not installed; {self.install_hint}")
        return load_session(folder, self.checksums, self.distribution, f"install it again: {self.install_hint}")

    def matches(self, folder: Path) -> bool:
        """Return whether a folder holds all of its files, undamaged."""
        return all(
            (folder / name).is_file() and hashlib.sha256((folder / name).read_bytes()).hexdigest() == sha256
            for name, sha256 in self.checksums.items()
        )


OPTIONAL_MODELS: Mapping[str, OptionalModel] = MappingProxyType(
    {
        model.name: model
        for model in (
            OptionalModel(
                "bge-small",
                "bge-small-en-v1.5 in int8: text as vectors, better and slower",
                "MIT",
                {MODEL: "68807e3ff2abb83cdd708d8243fd398246e397bfee2ba611c2bad728e27df743"},
            ),
            OptionalModel(
                "reranker",
                "ms-marco-MiniLM-L-12-v2 in int8: reads a question and a passage together",
                "Apache-2.0",
                {MODEL: "1225ccd6afd0f1b43a1b08bf67cd1cb68c05aafb443e9d8450015b8b3837ffd1"},
            ),
        )
    }
)
