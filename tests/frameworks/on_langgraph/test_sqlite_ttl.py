"""LangGraph's tests of time to live, from langgraph-checkpoint-sqlite, with MemoristStore in place of its store."""

import borrowed
from langgraph_sqlite_names import AsyncSqliteNames, SqliteNames

suite = borrowed.borrow("langgraph-checkpoint-sqlite", "test_ttl")
suite.SqliteStore, suite.AsyncSqliteStore = SqliteNames, AsyncSqliteNames

globals().update(
    borrowed.tests_of(
        suite,
        skipped={"test_ttl_override_default": "wants an item gone that was read, which extends its time to live"},
    )
)
