"""LangGraph's tests of its async store in SQLite, from langgraph-checkpoint-sqlite, with MemoristStore in its place."""

import borrowed
from langgraph_sqlite_names import AsyncSqliteNames

suite = borrowed.borrow("langgraph-checkpoint-sqlite", "test_async_store")
suite.AsyncSqliteStore = AsyncSqliteNames

globals().update(
    borrowed.tests_of(
        suite,
        skipped={"test_no_running_loop": "wants sync calls refused beside a running loop; ours may be called anywhere"},
    )
)
