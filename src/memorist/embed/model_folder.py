"""A user's own embedding model: a folder with an ONNX file and the WordPiece tokenizer of an uncased BERT."""

import hashlib
import json
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from memorist.embed.base import Vectors
from memorist.embed.local import OnnxEmbedder
from memorist.embed.onnx_models import MODEL, load_unchecked_session
from memorist.embed.wordpiece import MAX_TOKENS, WordPiece
from memorist.errors import ConfigError, EmbedderUnavailable

_MAX_POSITIONS = 512  # that a BERT knows: of a longer text, the model would fail
_DIGEST_CHARACTERS = 16
_INPUTS = ("input_ids", "attention_mask", "token_type_ids")
_NUMBER_TYPES = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}


class _Output(NamedTuple):
    """The output of a model that holds its vectors: one for the text, or one for each token."""

    name: str
    by_token: bool


class FolderEmbedder(OnnxEmbedder):
    """
    A model of a folder, as sentence-transformers lays one out: `model.onnx`, here or in `onnx/`, with its tokenizer.

    A vector is the mean of those of the tokens, scaled to length 1, unless the model itself gives one for the text.
    """

    _label: str = ""
    max_tokens: int = MAX_TOKENS

    def __init__(self, path: str, *, threads: int | None = None) -> None:
        super().__init__(threads=threads)
        self._label = f"the model in {path}"
        self._file = _find_model(Path(path).expanduser())
        inner = self._file.parent
        self._folder = inner.parent if inner.name == "onnx" and not _has_tokenizer(inner) else inner
        self._pieces, self.max_tokens = _read_tokenizer(self._folder), _read_max_tokens(self._folder)
        _refuse_other_pooling(self._folder)

    @cached_property
    def model_id(self) -> str:
        """The name of the folder, and a digest of all that a vector depends on: read once, as models are large."""
        digest = hashlib.sha256(json.dumps([self._pieces, self.max_tokens], sort_keys=True).encode())
        try:
            with self._file.open("rb") as content:
                digest.update(hashlib.file_digest(content, "sha256").digest())
        except OSError as exc:
            raise EmbedderUnavailable(f"{self._label} cannot be read: {exc.strerror}") from exc
        return f"onnx:{self._folder.absolute().name}@{digest.hexdigest()[:_DIGEST_CHARACTERS]}"

    @cached_property
    def dimensions(self) -> int:
        """The length of its vectors, which it may not say before it has made one."""
        return len(self._embed_one("a"))

    @cached_property
    def _wordpiece(self) -> WordPiece:
        return WordPiece(self._pieces)

    def _tokenizer(self) -> WordPiece:
        return self._wordpiece

    def _load(self) -> Any:
        session = load_unchecked_session(self._file, self._label)
        _choose_output(session, self._label)  # now: a model that cannot be used is told before a text is run
        unknown = [one.name for one in session.get_inputs() if one.name not in _INPUTS]
        if unknown:
            raise EmbedderUnavailable(f"{self._label} asks for {', '.join(unknown)}; known are {', '.join(_INPUTS)}")
        return session

    def _run(self, session: Any, ids: NDArray[np.int64]) -> Vectors:
        values = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        inputs = {
            one.name: values[one.name].astype(_NUMBER_TYPES.get(one.type, np.int64)) for one in session.get_inputs()
        }
        output = _choose_output(session, self._label)
        found: Vectors = np.asarray(session.run([output.name], inputs)[0][0], np.float32)
        vector: Vectors = found.mean(axis=0) if output.by_token else found
        length = float(np.linalg.norm(vector))
        return vector / length if length else vector  # one without a direction is refused where vectors are checked


def _find_model(path: Path) -> Path:
    """Return the ONNX file that a path names: the file itself, or that of a folder."""
    if path.is_file():
        return path
    if not path.is_dir():
        raise ConfigError(f"there is no folder {str(path)!r}: name the folder of a model, as in 'onnx:~/models/minilm'")
    for file in (path / MODEL, path / "onnx" / MODEL):
        if file.is_file():
            return file
    raise ConfigError(
        f"{str(path)!r} has no {MODEL}, nor has a folder onnx/ in it: export the model to ONNX "
        "(`optimum-cli export onnx --model NAME FOLDER`), or name the .onnx file itself"
    )


def _has_tokenizer(folder: Path) -> bool:
    return (folder / "vocab.txt").is_file() or (folder / "tokenizer.json").is_file()


def _read_tokenizer(folder: Path) -> dict[str, int]:
    """Return the vocabulary of a folder; ConfigError where its tokenizer is another than an uncased WordPiece."""
    if not _has_tokenizer(folder):
        raise ConfigError(f"{str(folder)!r} has neither vocab.txt nor tokenizer.json: copy those of the model there")
    settings = _read_json(folder / "tokenizer.json")
    model, normalizer = settings.get("model") or {}, settings.get("normalizer") or {}
    if settings and model.get("type", "WordPiece") != "WordPiece":
        raise ConfigError(
            f"the tokenizer in {str(folder)!r} is {model['type']}, and only WordPiece is known here: serve the model "
            "with Ollama or an OpenAI-compatible server, or pass an object with model_id, dimensions and embed(texts)"
        )
    keeps_case = _read_json(folder / "tokenizer_config.json").get("do_lower_case") is False
    if keeps_case or normalizer.get("lowercase") is False:
        raise ConfigError(f"the tokenizer in {str(folder)!r} keeps upper case, and only uncased models are known here")
    pieces = model.get("vocab") or _read_vocabulary(folder / "vocab.txt")
    missing = [piece for piece in ("[UNK]", "[CLS]", "[SEP]") if piece not in pieces]
    if missing:
        raise ConfigError(f"the vocabulary in {str(folder)!r} has no {' and no '.join(missing)}: it is not WordPiece's")
    return {str(piece): int(number) for piece, number in pieces.items()}


def _read_vocabulary(file: Path) -> dict[str, int]:
    lines = _read_text(file).removesuffix("\n").split("\n")
    return {piece.removesuffix("\r"): number for number, piece in enumerate(lines)}


def _read_max_tokens(folder: Path) -> int:
    given = _read_json(folder / "sentence_bert_config.json").get("max_seq_length")
    return min(given, _MAX_POSITIONS) if isinstance(given, int) and given > 2 else MAX_TOKENS


def _refuse_other_pooling(folder: Path) -> None:
    """Raise ConfigError where a model was trained for another vector than the mean: its vectors would mean nothing."""
    modes = _read_json(folder / "1_Pooling" / "config.json")
    if modes and modes.get("pooling_mode_mean_tokens") is False:
        raise ConfigError(
            f"the model in {str(folder)!r} is not pooled by the mean of its tokens, as its 1_Pooling/config.json says, "
            "and that alone is known here: export it to ONNX with its pooling, as an output of one vector a text, and "
            "remove that file"
        )


def _read_json(file: Path) -> dict[str, Any]:
    """Return the object in a file; nothing where there is no such file."""
    if not file.is_file():
        return {}
    try:
        value = json.loads(_read_text(file))
    except (ValueError, RecursionError) as exc:
        raise ConfigError(f"{file} is not JSON: {exc}") from exc
    return value if isinstance(value, dict) else {}


def _read_text(file: Path) -> str:
    try:
        return file.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise ConfigError(f"{file} cannot be read: {exc}") from exc


def _choose_output(session: Any, label: str) -> _Output:
    """Return the first output of one vector for the text, or else of one for each token."""
    ranks = {one.name: len(one.shape) for one in session.get_outputs()}
    pooled = [name for name, rank in ranks.items() if rank == 2 and "pooler" not in name]
    by_token = [name for name, rank in ranks.items() if rank == 3]
    # What a BERT calls its pooler is another vector than the mean, for another task.
    if "sentence_embedding" in pooled or (pooled and not by_token):
        return _Output("sentence_embedding" if "sentence_embedding" in pooled else pooled[0], by_token=False)
    if by_token:
        return _Output(by_token[0], by_token=True)
    raise EmbedderUnavailable(f"{label} has no output of vectors, but {', '.join(ranks)}: it is not an embedding model")
