"""Memories of claude-mem and mcp-memory-service, imported from their databases."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import memorist
from agent_files import database
from memorist.errors import InvalidInput

MOMENT = 1772442000000  # 2026-03-02 09:00 UTC, in milliseconds
CLAUDE_MEM_TABLES = (
    "create table sdk_sessions (id integer primary key, content_session_id text, memory_session_id text, project text)",
    """
    create table observations (
        id integer primary key autoincrement, memory_session_id text not null, project text not null, text text,
        type text not null, title text, subtitle text, facts text, narrative text, concepts text, files_read text,
        files_modified text, created_at text not null, created_at_epoch integer not null
    )
    """,
    """
    create table session_summaries (
        id integer primary key autoincrement, memory_session_id text not null, project text not null, request text,
        investigated text, learned text, completed text, next_steps text, files_read text, files_edited text,
        notes text, created_at text not null, created_at_epoch integer not null
    )
    """,
)
MCP_MEMORY_TABLE = """create table memories (id integer primary key autoincrement, content_hash text unique not null,
    content text not null, tags text, memory_type text, metadata text, created_at real, updated_at real,
    created_at_iso text, updated_at_iso text, deleted_at real default null, store text default 'default')"""


def write_claude_mem(file: Path, narrative: str = "Carts moved to Redis.", title: str = "Redis for carts") -> Path:
    observation: dict[str, Any] = {
        "memory_session_id": "mem-1", "project": "shop", "type": "decision", "title": title,
        "subtitle": "Faster checkouts", "facts": json.dumps(["Carts live in Redis", "The TTL is 30 days"]),
        "narrative": narrative, "concepts": json.dumps(["trade-off"]), "files_read": "[]",
        "files_modified": json.dumps(["cart.py"]), "created_at": "2026-03-02T09:00:00Z", "created_at_epoch": MOMENT,
    }  # fmt: skip
    summary = {
        "memory_session_id": "mem-1", "project": "shop", "request": "Speed up the cart", "learned": "Redis is fast",
        "next_steps": " ", "created_at": "2026-03-02T09:00:00Z", "created_at_epoch": MOMENT,
    }  # fmt: skip
    with database(file, *CLAUDE_MEM_TABLES) as connection:
        for table, row in (("observations", observation), ("session_summaries", summary)):
            names = ", ".join(row)
            connection.execute(f"insert into {table}({names}) values ({', '.join('?' * len(row))})", list(row.values()))
    return file


def write_mcp_memory(file: Path) -> Path:
    rows = [
        ("h1", "Deploys run from main", "deploy,ops,untagged", "decision", '{"by": "ada"}', None),
        ("h2", "Deleted there", "", "note", "{}", 1772442000.0),
        ("h3", "", "", "note", "damaged", None),
    ]
    with database(file, MCP_MEMORY_TABLE) as connection:
        for hash, content, tags, kind, metadata, deleted in rows:
            connection.execute(
                "insert into memories(content_hash, content, tags, memory_type, metadata, created_at, deleted_at) "
                "values (?, ?, ?, ?, ?, ?, ?)",
                (hash, content, tags, kind, metadata, MOMENT / 1000, deleted),
            )
    return file


@pytest.fixture
def memory() -> Iterator[memorist.Memorist]:
    with memorist.open(":memory:", embedder="none") as opened:
        yield opened


def test_an_observation_becomes_a_memory_with_its_facts(memory: memorist.Memorist, tmp_path: Path) -> None:
    report = memory.transfer.import_(write_claude_mem(tmp_path / "claude-mem.db"))

    (found,) = memory.list(tags=["decision"])
    assert (report.format, report.added, report.skipped) == ("claude-mem", 2, ())
    assert (found.title, found.project, found.source) == ("Redis for carts", "shop", "claude-mem")
    assert found.content == "Faster checkouts\n\nCarts moved to Redis."
    assert set(found.tags) == {"decision", "trade-off"}
    assert found.created_at == datetime(2026, 3, 2, 9, tzinfo=UTC)
    assert found.metadata == {"type": "decision", "files_modified": ["cart.py"], "claude_mem_session": "mem-1"}
    assert sorted(fact.text for fact in found.facts) == ["Carts live in Redis", "The TTL is 30 days"]


def test_a_summary_becomes_a_memory_of_the_parts_it_has(memory: memorist.Memorist, tmp_path: Path) -> None:
    memory.transfer.import_(write_claude_mem(tmp_path / "claude-mem.db"))

    (found,) = memory.list(tags=["summary"])
    assert found.content == "Request: Speed up the cart\n\nLearned: Redis is fast"
    assert (found.title, found.project) == ("Speed up the cart", "shop")


def test_memories_of_mcp_memory_service_keep_tags_metadata_and_time(memory: memorist.Memorist, tmp_path: Path) -> None:
    report = memory.transfer.import_(write_mcp_memory(tmp_path / "sqlite_vec.db"))

    (found,) = memory.list()
    assert (report.format, report.added) == ("mcp-memory-service", 1)
    assert (found.content, set(found.tags)) == ("Deploys run from main", {"deploy", "ops"})
    assert found.metadata == {"by": "ada", "memory_type": "decision"}
    assert found.created_at == datetime(2026, 3, 2, 9, tzinfo=UTC)
    (skipped,) = report.skipped  # an empty text; what was deleted is not mentioned
    assert skipped[0].endswith("sqlite_vec.db, memory 3")


def test_the_same_text_in_two_stores_of_mcp_memory_service_is_two_memories(
    memory: memorist.Memorist, tmp_path: Path
) -> None:
    table = MCP_MEMORY_TABLE.replace("content_hash text unique not null", "content_hash text not null")
    with database(tmp_path / "a.db", table) as connection:
        for store in ("default", "work"):
            connection.execute(
                "insert into memories(content_hash, content, tags, store) values ('h1', 'Deploys run from main', ?, ?)",
                (f"in-{store}", store),
            )

    report = memory.transfer.import_(tmp_path / "a.db")

    assert (report.added, report.known) == (2, 0)
    assert {(one.tags, one.metadata.get("store")) for one in memory.list()} == {
        (("in-default",), None),
        (("in-work",), "work"),
    }


@pytest.mark.parametrize("write", [write_claude_mem, write_mcp_memory])
def test_importing_again_adds_nothing(memory: memorist.Memorist, tmp_path: Path, write: Any) -> None:
    file = write(tmp_path / "a.db")
    first = memory.transfer.import_(file, project="all")

    assert memory.transfer.import_(file, project="all").added == 0
    assert len(memory.list(project="all")) == first.added


def test_secrets_are_masked_unless_asked_otherwise(memory: memorist.Memorist, tmp_path: Path) -> None:
    file = write_claude_mem(tmp_path / "a.db", narrative="It is redis://ci:s3cr3tpw@cache/1")

    assert memory.transfer.import_(file).redacted == {"url-password": 1}
    assert not any("s3cr3tpw" in one.content for one in memory.list())


def test_a_secret_that_a_long_title_is_cut_in_is_masked(memory: memorist.Memorist, tmp_path: Path) -> None:
    title = "x" * 484 + " ghp_" + ("a1B2c3D4e5F6g7H8" * 3)[:36]

    memory.transfer.import_(write_claude_mem(tmp_path / "a.db", title=title))

    assert not any("ghp_a1" in (one.title or "") for one in memory.list())


def test_a_database_of_another_program_is_refused_by_name(memory: memorist.Memorist, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="is not a database of claude-mem"):
        memory.transfer.import_(write_mcp_memory(tmp_path / "a.db"), format="claude-mem")
