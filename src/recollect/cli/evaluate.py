"""How good the answers are: measured on sets, and on a user's own memories."""

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import click

from recollect import __version__
from recollect.cli.app import Session
from recollect.cli.options import Bar, json_option, print_json
from recollect.errors import RecollectError


@click.command("eval")
@click.argument("datasets", nargs=-1, type=click.Path(path_type=Path))
@click.option(
    "--mode", "modes", multiple=True, help="hybrid, keyword or semantic (repeat for several; default hybrid)."
)
@click.option("--profile", "profiles", multiple=True, metavar="NAME[:OPTION=VALUE,...]", help="How to rank (repeat).")
@click.option("--set", "replaced", multiple=True, metavar="OPTION=VALUE", help="Replace an option of every profile.")
@click.option("--embedder", metavar="MODEL", help="local, openai:MODEL or ollama:MODEL (default: the configured one).")
@click.option("--part", metavar="NAME", help="Of a set with several: train, dev, test ...")
@click.option("--scope", "scopes", multiple=True, help="Only questions of this scope (repeat for several).")
@click.option("--limit", "-n", type=click.IntRange(1), help="So many questions of each set, drawn at random.")
@click.option("--seed", default=0, show_default=True, help="Of what is drawn at random.")
@click.option("--cache", type=click.Path(path_type=Path), help="Where databases are kept (default: your cache folder).")
@click.option("--rebuild", is_flag=True, help="Make the databases anew.")
@click.option("--min-ndcg", type=float, help="Exit with 1 where nDCG@10 of a chosen way is below this.")
@json_option
@click.pass_obj
def eval_command(session: Session, /, as_json: bool, min_ndcg: float | None, **wanted: Any) -> None:
    """
    Measure how well memories are found. DATASETS are folders in BEIR's form: corpus.jsonl, queries.jsonl, qrels.tsv.

    Beside what is chosen stand its legs by themselves, and grep.

    \b
    Example:
        recollect eval data/scifact --part train --profile balanced --profile balanced:alpha=.3
    """
    from recollect.evaluate.report import table

    run = _run(session, **wanted)
    if as_json:
        print_json(run)
    else:
        for line in table(run):
            click.echo(line)
    _guard(run, min_ndcg)


def _run(
    session: Session,
    *,
    datasets: Sequence[Path],
    modes: Sequence[str],
    profiles: Sequence[str],
    replaced: Sequence[str],
    embedder: str | None,
    part: str | None,
    scopes: Sequence[str],
    limit: int | None,
    seed: int,
    cache: Path | None,
    rebuild: bool,
) -> dict[str, Any]:
    from recollect.embed import resolve
    from recollect.engine.core import close_model
    from recollect.evaluate.dataset import load
    from recollect.evaluate.indexing import indexed
    from recollect.evaluate.report import Measured, data
    from recollect.evaluate.running import run
    from recollect.evaluate.ways import Grep, Search, Way, beside, choices, settings

    options = session.loaded.settings
    chosen = choices(modes or ("hybrid",), profiles or (options.profile,), settings(replaced))
    model = resolve(embedder or options.embedder, threads=options.threads)
    measured = []
    try:
        for folder in datasets:
            dataset = load(folder, part).narrowed(scopes, limit, seed)
            with Bar(f"Indexing {dataset.name}", len(dataset.documents)) as bar:
                made = indexed(dataset, model, cache or _cache(), rebuild=rebuild, progress=bar)
            with closing(made.memory):
                ways: list[Way] = [Grep(dataset.documents), *(Search(one, made.memory, made) for one in beside(chosen))]
                outcomes = []
                for way in ways:
                    with Bar(f"{dataset.name}: {way.name}", len(dataset.questions)) as bar:
                        outcomes.append(run(way, dataset.questions, bar))
            measured.append(Measured(dataset, tuple(outcomes), tuple(one.name for one in chosen)))
    finally:
        close_model(model)
    return data(measured, version=__version__, embedder=model.model_id if model else None, seed=seed)


def _cache() -> Path:
    from platformdirs import user_cache_path

    return user_cache_path("recollect", appauthor=False)


def _guard(run: dict[str, Any], least: float | None) -> None:
    for one in run["sets"] if least is not None else ():
        for way in one["ways"]:
            reached = way["measures"]["ndcg@10"]["mean"]
            if way["name"] in one["chosen"] and reached < least:
                raise RecollectError(f"nDCG@10 of {way['name']} on {one['name']} is {reached:.4f}, below {least:g}")
