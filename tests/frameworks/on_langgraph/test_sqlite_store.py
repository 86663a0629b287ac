"""LangGraph's tests of its store in SQLite, from langgraph-checkpoint-sqlite, with MemoristStore in its place."""

import borrowed
from langgraph_sqlite_names import SqliteNames

suite = borrowed.borrow("langgraph-checkpoint-sqlite", "test_store")
suite.SqliteStore = SqliteNames

globals().update(
    borrowed.tests_of(
        suite,
        skipped={
            "test_vector_store_initialization": "looks into the tables of SqliteStore",
            "test_nonnull_migrations": "looks into the migrations of SqliteStore",
            "test_sql_injection_vulnerability": "wants such a key refused; ours is a bound value",
        },
    )
)
