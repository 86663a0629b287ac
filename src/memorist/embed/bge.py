"""bge-small-en-v1.5 in int8: finds more than the model that comes along, and takes longer. It has to be added."""

from pathlib import Path
from typing import Any

import numpy as np

from memorist.embed.base import Vectors
from memorist.embed.encoder import Encoder, Ids
from memorist.embed.further import FURTHER


class BgeSmall(Encoder):
    """EmbedderUnavailable, with how to get it, where there is no such model on this machine."""

    model_id = "local:bge-small-en-v1.5-int8"
    dimensions = 384
    what = "bge-small"
    by_sentence = False  # not measured, and twice the time for a model that takes long
    instruction = "Represent this sentence for searching relevant passages: "

    def __init__(self, *, folder: Path | None = None, threads: int | None = None) -> None:
        super().__init__(threads=threads)
        self._folder = folder

    def _load(self) -> Any:
        return FURTHER["bge-small"].load(self._folder)

    def _run(self, session: Any, ids: Ids) -> Vectors:
        given = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        vector: Vectors = session.run(["last_hidden_state"], given)[0][0, 0]  # the first token stands for the text
        return vector / np.linalg.norm(vector)
