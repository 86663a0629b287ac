"""Errors as answers: problem details (RFC 9457), made of the one error tree in one place."""

from collections.abc import Mapping
from typing import Any

from memorist.errors import (
    AlreadyExists,
    Ambiguous,
    ChangedMeanwhile,
    ConfigError,
    EmbedderError,
    InvalidInput,
    MemoristError,
    MissingExtra,
    NotFound,
    SearchTimeout,
    StoreBusy,
    StoreCorrupt,
    StoreError,
    find_hint,
)

BASE = "/api/v1"
PROBLEM_JSON = "application/problem+json"
URN = "urn:memorist:problem:"
_RETRY_SECONDS = 1


class Refusal(Exception):
    """A request that is refused before the engine is called, with the status and the headers of the answer."""

    def __init__(self, status: int, name: str, detail: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status, self.name, self.headers = status, name, dict(headers or {})


# The first class that an error belongs to decides.
_STATUSES: tuple[tuple[type[MemoristError], int, str], ...] = (
    (NotFound, 404, "not-found"),
    (AlreadyExists, 409, "already-exists"),
    (Ambiguous, 409, "ambiguous"),
    (ChangedMeanwhile, 412, "changed-meanwhile"),
    (InvalidInput, 422, "invalid-input"),
    (StoreBusy, 503, "store-busy"),
    (SearchTimeout, 504, "search-timeout"),
    (StoreCorrupt, 500, "store-corrupt"),
    (StoreError, 503, "store-error"),
    (EmbedderError, 503, "embedder-error"),
    (MissingExtra, 501, "missing-extra"),
    (ConfigError, 500, "config-error"),
    (MemoristError, 500, "error"),
)
ERROR_CLASSES: Mapping[str, type[MemoristError]] = {name: kind for kind, _, name in _STATUSES}

_HINTS = {
    "restore_memory": "; it was forgotten: restore it to use it again",
    "unsupersede": "; undo its supersession first",
    "list_memories": "; a search or a list shows ids",
    "list_sessions": "; the list of sessions shows ids",
    "list_facts": "; the facts of a memory show ids",
    "index_file": "; `memorist index` on the server's machine indexes it",
    "check": "; a check tells more",
    "repair": "; a repair makes indexes and vectors again",
}


# Errors of the machine, whose messages may name its files, its servers and their users.
MACHINE_ERRORS = (StoreError, EmbedderError, ConfigError, MissingExtra)
_WITHOUT_PLACE: tuple[tuple[type[MemoristError], str], ...] = (
    (StoreBusy, "the memory is busy with what another wants; try again"),
    (StoreCorrupt, "the database is damaged"),
    (StoreError, "the database cannot be used now"),
    (EmbedderError, "the embedding model cannot be used now"),
    (MemoristError, "the server is not set up for this"),
)


def leave_place_out(error: MemoristError) -> MemoristError:
    """Return an error of the machine for whoever does not own it: the same kind, without any name."""
    if isinstance(error, SearchTimeout):
        return error
    reason = next(reason for kind, reason in _WITHOUT_PLACE if isinstance(error, kind))
    return type(error)(
        reason if isinstance(error, StoreBusy) else f"{reason}; the server's log on stderr has the details"
    )


def describe_problem(error: BaseException) -> tuple[int, dict[str, Any], dict[str, str]]:
    """Return the status, the body and the headers of the answer to a request that ended in an error."""
    if isinstance(error, Refusal):
        return error.status, _problem(error.status, error.name, str(error)), error.headers
    for kind, status, name in _STATUSES:
        if isinstance(error, kind):
            hint = find_hint(error)
            more = _HINTS.get(hint.action, "") if hint else ""
            headers = {"Retry-After": str(_RETRY_SECONDS)} if status == 503 else {}
            return status, _problem(status, name, f"{error}{more}"), headers
    detail = f"the request failed unexpectedly ({type(error).__name__}); the server's log on stderr has the details"
    return 500, _problem(500, "unexpected", detail), {}


def _problem(status: int, name: str, detail: str) -> dict[str, Any]:
    title = name.replace("-", " ").capitalize()
    return {"type": f"{URN}{name}", "title": title, "status": status, "detail": detail}
