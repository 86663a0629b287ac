"""
Idempotency keys: a request that is sent again with its key gets the first answer, whichever worker it reaches.

An answer is a file in a folder that the workers of one server share, locked while its request is at work: the system
ends that lock with the process. Answers hold memories, which may be erased later, so what is in a file can be read only
with a secret that is never written and ends with the server.
"""

import hashlib
import os
import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import msgspec
from msgspec import Struct
from starlette.responses import Response

from memorist.atomic_file import lock_file
from memorist.web.problems import Refusal

_MAX_ANSWERS, _MAX_ANSWER_BYTES = 1000, 16 << 20  # that are kept; the oldest are given up first
_ANSWERS_BETWEEN_SWEEPS = 50
_KEY_SECONDS = 86_400
_FINGERPRINT_BYTES = _NONCE_BYTES = 32
_LOCKED_BYTE = 1 << 30  # beyond all content, because Windows does not read what another has locked


class _KeptAnswer(Struct, array_like=True):
    status: int
    headers: Sequence[tuple[bytes, bytes]]
    body: bytes


class Claim(Struct):
    """A request with a key: the answer that it got before, or has now."""

    answer: Response | None = None


class IdempotencyKeys:
    """The latest answers of a server, by caller and key."""

    def __init__(self, folder: Path, secret: bytes) -> None:
        self._folder, self._secret = folder, secret
        self._unswept = 0

    @contextmanager
    def claim(self, caller: str, key: str, *request: bytes) -> Iterator[Claim]:
        """
        Yield the claim of a request, which has an answer already, or has to be given one within the block.

        Without one, the key is given up, so that the request can be tried again.
        """
        if not key or len(key) > 255 or not key.isascii() or not key.isprintable():
            raise Refusal(400, "bad-idempotency-key", "an Idempotency-Key has 1 to 255 printable ASCII characters")
        fingerprint = hashlib.sha256(b"\0".join(request)).digest()
        name = hashlib.sha256(f"{caller}\0{key}".encode(errors="surrogatepass")).hexdigest()
        # Programs that clean temporary folders may have removed it: the answers are gone then, and not the server.
        self._folder.parent.mkdir(0o700, exist_ok=True)
        self._folder.mkdir(0o700, exist_ok=True)
        with _open_locked(self._folder / name, fingerprint) as file:
            is_expired = os.fstat(file.fileno()).st_mtime < time.time() - _KEY_SECONDS
            content = b"" if is_expired else file.read()
            _refuse_another(fingerprint, content)
            claim = Claim(self._read(content))
            if claim.answer is not None:
                yield claim
                return
            _replace(file, fingerprint)
            try:
                yield claim
            finally:
                _replace(file, b"" if claim.answer is None else fingerprint + self._write(claim.answer))
                self._sweep()

    def _read(self, content: bytes) -> Response | None:
        sealed = content[_FINGERPRINT_BYTES:]
        with suppress(msgspec.DecodeError):  # whoever was at work was killed
            text = self._mask(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:])
            answer = msgspec.msgpack.decode(text, type=_KeptAnswer)
            headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in answer.headers}
            return Response(answer.body, answer.status, headers)
        return None

    def _write(self, answer: Response) -> bytes:
        text = msgspec.msgpack.encode(_KeptAnswer(answer.status_code, answer.raw_headers, bytes(answer.body)))
        nonce = secrets.token_bytes(_NONCE_BYTES)
        return nonce + self._mask(nonce, text)

    def _mask(self, nonce: bytes, text: bytes) -> bytes:
        stream = hashlib.shake_256(self._secret + nonce).digest(len(text))
        return (int.from_bytes(text) ^ int.from_bytes(stream)).to_bytes(len(text))

    def _sweep(self) -> None:
        """Remove the oldest answers now and then, as the folder has to be listed for it."""
        self._unswept += 1
        if self._unswept < _ANSWERS_BETWEEN_SWEEPS:
            return
        self._unswept = size = 0
        found: list[tuple[int, int, str]] = []
        with suppress(OSError):
            for entry in os.scandir(self._folder):
                found.append((entry.stat().st_mtime_ns, entry.stat().st_size, entry.path))
        for number, (_, length, path) in enumerate(sorted(found, reverse=True)):
            size += length
            if number >= _MAX_ANSWERS or size > _MAX_ANSWER_BYTES:
                with suppress(OSError), open(path, "rb") as file:  # its request may be at work
                    lock_file(file)
                    os.unlink(path)


def _open_locked(path: Path, fingerprint: bytes) -> BinaryIO:
    """Open a file, made if there is none, that no other request has; raise Refusal if one does."""
    while True:
        with ExitStack() as stack:
            file = stack.enter_context(open(path, "r+b", opener=_open_or_create))
            os.lseek(file.fileno(), _LOCKED_BYTE, os.SEEK_SET)
            try:
                lock_file(file.fileno())
            except BlockingIOError:
                file.seek(0)
                _refuse_another(fingerprint, file.read(_FINGERPRINT_BYTES))
                at_work = "the first request with this Idempotency-Key is still at work"
                raise Refusal(409, "still-at-work", at_work) from None
            file.seek(0)
            if os.fstat(file.fileno()).st_nlink:  # else it was swept after it was opened
                stack.pop_all()
                return file


def _open_or_create(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CREAT, 0o600)


def _refuse_another(fingerprint: bytes, content: bytes) -> None:
    if content and content[:_FINGERPRINT_BYTES] != fingerprint:
        raise Refusal(422, "idempotency-key-reused", "this Idempotency-Key was used for another request")


def _replace(file: BinaryIO, content: bytes) -> None:
    file.seek(0)
    file.truncate()
    file.write(content)
    file.flush()
