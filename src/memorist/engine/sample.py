"""
A sample: a small memory about an invented software project, for a demonstration and for a first look; and the same as
months of work would leave it, with notes of many days, conversations, facts, links and recalls.
"""

import json
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from memorist.engine.memory import Memorist
from memorist.errors import NotFound
from memorist.records import Memory
from memorist.reports import ImportReport

_PROJECT, _OTHER_PROJECT = "shop", "mobile"
_SOURCE = "sample"

_MEMORIES = (
    ("We deploy with `make ship` from the release branch; it waits for a green build", "procedural", ["deploy"]),
    ("The staging cluster is rebuilt every night at 02:00 UTC, so never keep data there", "semantic", ["ops"]),
    ("ADR-016: retries are capped at 5 with exponential back-off, because the billing API bans noisy clients",
     "reflective", ["decision"]),
    ("Invoices are rounded per line, not per total, since commit 9f3c2ab: accounting insisted after the March audit",
     "reflective", ["decision", "billing"]),
    ("user_id is a UUID everywhere except in the legacy export, where it is a number", "semantic", ["schema"]),
    ("Anna prefers short pull requests and reviews them before lunch", "episodic", ["people"]),
    ("The flaky test test_checkout_timeout fails when the CI machine has one core; it is a race in the fake clock",
     "semantic", ["tests"]),
    ("Error E4031 means the session token was issued before the last key rotation: log the user out", "semantic",
     ["auth"]),
    ("We chose PostgreSQL over DynamoDB since reporting needs joins", "reflective", ["decision"]),
    ("Customers on the old plan keep their price until they change seats", "semantic", ["billing"]),
    ("The mobile app caches images for a week; a purge takes effect only after a restart", "semantic", ["mobile"]),
    ("Login was slow on Mondays because the password hashes are checked on two small machines", "episodic",
     ["auth", "performance"]),
)  # fmt: skip


_NEWEST_FIRST = tuple(range(9, 9 + 11 * len(_MEMORIES), 11))  # days ago, of the memories of the small sample

# Days ago, text, sector, tags, project.
_NOTES: Sequence[tuple[float, str, str, list[str], str]] = (
    (236, "The shop runs in two regions: Frankfurt is primary, Dublin takes over by DNS within five minutes",
     "semantic", ["ops"], _PROJECT),
    (221, "Search in the shop is case-insensitive but keeps accents: cafe does not find café", "semantic", ["search"],
     _PROJECT),
    (208, "Session tokens expire after 12 hours; support asked for longer ones and security said no", "reflective",
     ["auth", "decision"], _PROJECT),
    (197, "The release train leaves on Tuesdays at 10:00; what is not merged by then waits a week", "procedural",
     ["deploy"], _PROJECT),
    (183, "Refunds above 500 euros need a second person: the button stays grey without one", "procedural", ["billing"],
     _PROJECT),
    (172, "Push notifications are sent in the user's own time zone, never between 22:00 and 07:00", "semantic",
     ["notifications"], _OTHER_PROJECT),
    (160, "Tom owns the payment provider contract; ask him before touching its limits",
     "episodic", ["people", "billing"], _PROJECT),
    (149, "The app keeps an offline queue of orders; the server drops duplicates by their client id", "semantic",
     ["orders"], _OTHER_PROJECT),
    (131, "We rate-limit the public API at 600 requests a minute for each key", "semantic", ["api"], _PROJECT),
    (118, "Feature flags live in flags.yaml and are read at start-up: a change needs a restart",
     "procedural", ["config"], _PROJECT),
    (96, "Dark mode of the app follows the system; the switch in its settings was removed in version 4.2", "semantic",
     ["design"], _OTHER_PROJECT),
    (83, "Photos are resized to 1600 pixels on the phone before they are uploaded", "semantic", ["images"],
     _OTHER_PROJECT),
    (71, "Load test of March: 1,200 orders a minute before the checkout queue grows", "episodic", ["performance"],
     _PROJECT),
    (58, "Backups are kept for 35 days and tried out on the first Monday of every month", "procedural", ["ops"],
     _PROJECT),
    (44, "Customers read 'pending' as 'failed': the label is now 'on its way'", "reflective", ["design", "orders"],
     _PROJECT),
    (33, "The crash on Android 12 came from a camera permission that was revoked while the scanner was open",
     "episodic", ["bugs"], _OTHER_PROJECT),
    (21, "We rate-limit the public API at 900 requests a minute for each key", "semantic", ["api"], _PROJECT),
    (14, "Backups are kept for 35 days and they are tried out on the first Monday of every month",
     "procedural", ["ops"], _PROJECT),
    (6, "Checkout must not wait for the newsletter service: it is called from the queue since Friday", "reflective",
     ["checkout", "decision"], _PROJECT),
    (2, "Lena reviews everything that touches the database, and answers fastest in the morning", "episodic", ["people"],
     _PROJECT),
    (0.4, "The Dublin region moves to Stockholm in January; certificates are ordered", "semantic", ["ops"],
     _PROJECT),
)  # fmt: skip

# The beginning of a memory, a fact about it, its kind, and its confidence.
_FACTS = (
    ("Tom owns the payment", "Tom owns the contract with the payment provider", "relationship", 0.95),
    ("Load test of March", "The checkout holds 1,200 orders a minute", "state", 0.9),
    ("Session tokens expire", "Session tokens expire after 12 hours", "decision", 1.0),
    ("Anna prefers short", "Anna prefers short pull requests", "preference", 0.9),
    ("The Dublin region moves", "The second region will be Stockholm", "temporal", 0.8),
)

# The beginnings of two memories, and how they are linked.
_LINKS = (
    ("Refunds above 500", "Tom owns the payment", "asks"),
    ("Invoices are rounded", "Refunds above 500", "relates_to"),
    ("The release train", "We deploy with", "uses"),
    ("The Dublin region moves", "The shop runs in two regions", "changes"),
    ("Photos are resized", "The mobile app caches images", "relates_to"),
)

# Days ago, an id, a title, the project, and what was said.
_CONVERSATIONS = (
    (52, "checkout-timeouts", "Checkout times out in the morning", _PROJECT, (
        ("user", "Checkout timed out for a dozen customers this morning. Where do I look first?"),
        ("assistant", "At the newsletter call: it is in the request path, and its service took 9 seconds."),
        ("user", "Can we take it out of the request path today?"),
        ("assistant", "Yes. The order is stored before that call, so it can go to the queue without losing "
                      "anything. I would keep the old path behind a flag for a week."),
        ("user", "Do it, and remember that the flag has to be gone by the next release train."),
    )),
    (11, "android-crash", "The crash on Android 12 is back", _OTHER_PROJECT, (
        ("user", "The crash reports from Android 12 are back. Same stack as in October?"),
        ("assistant", "The same: the scanner holds the camera while its permission is revoked in the settings."),
        ("user", "Then the fix was never in the release branch."),
        ("assistant", "It was merged on the 3rd, and the branch was cut on the 1st. Cherry-picking is one commit."),
    )),
)  # fmt: skip

_QUESTIONS = (
    "how do we deploy", "who owns the payment contract", "retry limit of the billing API", "android crash scanner",
    "when does the release train leave", "what is our office's wifi password",
)  # fmt: skip


def add_sample(memory: Memorist) -> ImportReport:
    """Remember the sample; what is known already stays as it is."""
    before = memory.stats().memories
    memory.add_many(
        {"content": content, "sector": sector, "tags": tags, "project": _PROJECT} for content, sector, tags in _MEMORIES
    )
    added = memory.stats().memories - before
    return ImportReport("sample", added, len(_MEMORIES) - added)


def add_sample_history(memory: Memorist) -> ImportReport:
    """Remember the sample as months of work would have left it; the second time changes nothing."""
    if known := len(memory.list(source=_SOURCE, limit=1000)):
        return ImportReport("sample", 0, known)
    before, now = memory.stats().memories, datetime.now(UTC)
    _add_notes(memory, now)
    sessions = _add_conversations(memory, now)
    _connect(memory)
    for question in _QUESTIONS:
        memory.search(question, limit=4, record="log")
    return ImportReport("sample", memory.stats().memories - before, 0, sessions)


def _add_notes(memory: Memorist, now: datetime) -> None:
    small = zip(_NEWEST_FIRST, _MEMORIES, strict=True)
    notes = [(days, content, sector, tags, _PROJECT) for days, (content, sector, tags) in small]
    memory.add_many(
        {"content": content, "sector": sector, "tags": tags, "project": project, "source": _SOURCE,
         "created_at": now - timedelta(days=days),
         "facts": [
             {"text": text, "kind": kind, "confidence": confidence}
             for beginning, text, kind, confidence in _FACTS
             if content.startswith(beginning)
         ]}
        for days, content, sector, tags, project in (*_NOTES, *notes)
    )  # fmt: skip


def _add_conversations(memory: Memorist, now: datetime) -> int:
    lines = [
        {"session": name, "project": project, "id": f"{name}-{place}", "role": role, "content": content,
         "timestamp": (now - timedelta(days=days) + timedelta(minutes=place)).isoformat()}
        for days, name, _, project, turns in _CONVERSATIONS
        for place, (role, content) in enumerate(turns)
    ]  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "sample.jsonl"
        file.write_text("\n".join(json.dumps(line) for line in lines), encoding="utf-8")
        sessions = memory.transfer.import_conversations(file).sessions
    for _, name, title, *_ in _CONVERSATIONS:
        with suppress(NotFound):  # it was forgotten or erased
            memory.sessions.summarise(f"jsonl:{name}", title)
    return sessions


def _connect(memory: Memorist) -> None:
    """Add links, change a memory, let one replace another, and pin one."""
    known = list(memory.list(source=_SOURCE, limit=200))

    def find(beginning: str) -> Memory:
        return next(one for one in known if one.content.startswith(beginning))

    for first, second, kind in _LINKS:
        memory.links.add(find(first).id, find(second).id, kind)
    changed = find("Feature flags live")
    memory.update(
        changed.id, content="Feature flags live in flags.yaml and are read every 30 seconds: no restart is needed"
    )
    memory.supersede(find("Search in the shop is case-insensitive").id, _add_successor(memory).id)
    memory.pin(find("We deploy with").id)


def _add_successor(memory: Memorist) -> Memory:
    return memory.add(
        "Search in the shop ignores case and accents: cafe finds café",
        sector="semantic", tags=["search"], project=_PROJECT, source=_SOURCE,
        created_at=datetime.now(UTC) - timedelta(days=27),
    )  # fmt: skip
