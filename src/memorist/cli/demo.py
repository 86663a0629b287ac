"""The demo: a small memory about a software project, and three questions to it."""

import os
import shutil
import sys
from pathlib import Path

import click

from memorist.cli.options import style
from memorist.engine import open_memory
from memorist.present.render import hit_text

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

_QUESTIONS = (
    ("pictures look outdated on phones", "The memory that answers shares no word with it: only meaning finds it."),
    ("9f3c2ab", "A language model sees no meaning in it: only the exact word finds it."),
    ("why are retries capped?", "Keywords and meaning agree, and the score shows how much each contributed."),
)


@click.command("demo")
def demo_command() -> None:
    """
    Show what Memorist does, in a temporary database.

    \b
    Example:
        memorist demo
    """
    paint = style()
    with open_memory(":memory:") as memory:
        memory.add_many(
            {"content": content, "sector": sector, "tags": tags, "project": "shop"}
            for content, sector, tags in _MEMORIES
        )
        click.echo(f"Remembered {len(_MEMORIES)} things about a software project, in a temporary database.\n")
        for question, remark in _QUESTIONS:
            results = memory.search(question, limit=2)
            click.echo(f"{paint('$ memorist search', dim=True)} {paint(repr(question), bold=True)}")
            for place, hit in enumerate(results, 1):
                click.echo(hit_text(place, hit, paint, explain=True))
            click.echo(f"    {paint(remark, fg='green')}  {paint(f'({results.took_ms:.1f} ms)', dim=True)}\n")
    click.echo("Nothing was saved, and nothing left this machine. Now try your own memories:\n")
    program = _program_name()
    click.echo(f'  {program} add "something to remember" --project NAME --tag TAG')
    click.echo(f'  {program} search "something you want to know"')
    click.echo(f"  {program} --help")


def _program_name() -> str:
    """Return how to run this program from here: its name, or the path it was run by."""
    script = Path(sys.argv[0])
    if script.name != "memorist" or shutil.which("memorist"):
        return "memorist"
    return os.path.relpath(script) if script.is_relative_to(Path.cwd()) else str(script)
