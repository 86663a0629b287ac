"""A sample: a small memory about an invented software project, for a demonstration and for a first look."""

from memorist.engine.memory import Memorist
from memorist.reports import ImportReport

SAMPLE_PROJECT = "shop"

SAMPLE_MEMORIES = (
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


def add_sample(memory: Memorist) -> ImportReport:
    """Remember the sample; what is known already stays as it is."""
    before = memory.stats().memories
    memory.add_many(
        {"content": content, "sector": sector, "tags": tags, "project": SAMPLE_PROJECT}
        for content, sector, tags in SAMPLE_MEMORIES
    )
    added = memory.stats().memories - before
    return ImportReport("sample", added, len(SAMPLE_MEMORIES) - added)
