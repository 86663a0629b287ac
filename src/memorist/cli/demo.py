"""The first minute: a small memory of a software project, and three questions to it."""

import os
import shutil
import sys
from pathlib import Path

import click

from memorist.cli.options import style
from memorist.engine import open_memory
from memorist.present.render import hit_text

MEMORIES = (
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

QUESTIONS = (
    ("pictures look outdated on phones", "No word of it stands in the memory that answers: only meaning finds it."),
    ("9f3c2ab", "It means nothing to a language model: only the exact word finds it."),
    ("why are retries capped?", "Words and meaning agree, and the score says how much each gave."),
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
            for content, sector, tags in MEMORIES
        )
        click.echo(f"Remembered {len(MEMORIES)} things about a software project, in a temporary database.\n")
        for question, remark in QUESTIONS:
            results = memory.search(question, limit=2)
            click.echo(f"{paint('$ memorist search', dim=True)} {paint(repr(question), bold=True)}")
            for place, hit in enumerate(results, 1):
                click.echo(hit_text(place, hit, paint, explain=True))
            click.echo(f"    {paint(remark, fg='green')}  {paint(f'({results.took_ms:.1f} ms)', dim=True)}\n")
    click.echo("Nothing was kept, and nothing left this machine. Now with your own memories:\n")
    command = _command()
    click.echo(f'  {command} add "what you want remembered" --project NAME --tag TAG')
    click.echo(f'  {command} search "what you want to know"')
    click.echo(f"  {command} --help")


def _command() -> str:
    """How this program can be called from here: by its name, or by the path it was called with."""
    called = Path(sys.argv[0])
    if called.name != "memorist" or shutil.which("memorist"):
        return "memorist"
    return os.path.relpath(called) if called.is_relative_to(Path.cwd()) else str(called)
