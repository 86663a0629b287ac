"""How good the answers are: measured on sets, and on a user's own memories."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from memorist import __version__
from memorist.cli.app import CommandContext
from memorist.cli.options import ProgressBar, embedder_option, json_option, print_json, together
from memorist.errors import MemoristError
from memorist.present.render import printable, record_json

GOOD, BAD = "good", "bad"

_chosen = together(
    click.option("--mode", "modes", multiple=True, help="hybrid (the default), keyword or semantic (repeat)."),
    click.option(
        "--profile", "profiles", multiple=True, metavar="NAME[:OPTION=VALUE,...]", help="How to rank (repeat)."
    ),
    click.option(
        "--set", "replaced", multiple=True, metavar="OPTION=VALUE", help="Replace an option of every profile."
    ),
    embedder_option,
)
_asked = together(
    click.option("--golden", type=click.Path(path_type=Path), help="Questions to your own memories, as JSON lines."),
    click.option("--from-recalls", is_flag=True, help="Questions whose answers `memorist feedback` called good."),
    click.option("--part", metavar="NAME", help="Of a set with several: train, dev, test ..."),
    click.option("--scope", "scopes", multiple=True, help="Only questions of this scope (repeat for several)."),
    click.option("--limit", "-n", type=click.IntRange(1), help="So many questions of each set, drawn at random."),
    click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of what is drawn at random."),
)
_kept = together(
    click.option("--cache", type=click.Path(path_type=Path), help="Where databases and runs are kept."),
    click.option("--rebuild", is_flag=True, help="Make the databases of the sets, and the reranker's scores, anew."),
    click.option("--save", metavar="NAME", help="Keep the run, with every answer, by name or as FILE.json."),
    click.option("--html", type=click.Path(path_type=Path), help="Write a page with plots."),
)


@dataclass(frozen=True, slots=True)
class _EvalRequest:
    """What is measured, and by what."""

    datasets: Sequence[Path]
    golden: Path | None
    from_recalls: bool
    modes: Sequence[str]
    profiles: Sequence[str]
    replaced: Sequence[str]
    embedder: str | None
    part: str | None
    scopes: Sequence[str]
    limit: int | None
    seed: int
    rebuild: bool
    relevance: bool

    @property
    def anything(self) -> bool:
        return bool(self.datasets or self.golden or self.from_recalls)


@click.command("eval")
@click.argument("datasets", nargs=-1, type=click.Path(path_type=Path))
@_asked
@_chosen
@click.option("--relevance", is_flag=True, help="Also whether relevance tells questions without an answer.")
@click.option("--compare", nargs=2, metavar="A B", help="What changed between two saved runs, or two profiles.")
@click.option("--show", default=5, show_default=True, help="How many questions that changed to show.")
@click.option("--min-ndcg", type=float, help="Exit with 1 where nDCG@10 of a chosen way is below this.")
@_kept
@json_option
@click.pass_obj
def eval_command(
    session: CommandContext,
    /,
    compare: tuple[str, str] | None,
    show: int,
    min_ndcg: float | None,
    cache: Path | None,
    save: str | None,
    html: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """
    Measure how well memories are found. DATASETS are folders in BEIR's form: corpus.jsonl, queries.jsonl, qrels.tsv.

    Beside what is chosen (*) stand its legs by themselves, and grep.

    \b
    Example:
        memorist eval data/scifact --part train --profile balanced --profile rank
        memorist eval data/scifact --compare balanced balanced:alpha=.3
        memorist eval --from-recalls
    """
    from memorist.evaluate import compare as comparing
    from memorist.evaluate.html_report import render_page
    from memorist.evaluate.report import drop_answers, format_run
    from memorist.evaluate.report import save_run as keep

    wanted, place = _EvalRequest(**options), cache or _cache()
    if compare:
        run, changes = _compared(session, wanted, compare, place)
    else:
        if not wanted.anything:
            raise click.UsageError("nothing to measure: give a DATASET, --golden or --from-recalls")
        run, changes = _run(session, wanted, place), []
    if save:
        click.echo(f"Kept as {keep(run, save, place)}", err=True)
    if html:
        html.write_text(render_page(run, changes), "utf-8")
    if as_json:
        print_json({**drop_answers(run), **({"changes": changes} if changes else {})})
    else:
        lines = format_run(run) if not compare else comparing.format_comparisons(changes, show)
        for line in lines:
            click.echo(printable(line))
    _guard(run, min_ndcg)


@click.command("feedback")
@click.argument("id", required=False)
@click.argument("word", metavar="[good|bad]", required=False, type=click.Choice((GOOD, BAD)))
@click.option("--query", metavar="TEXT", help="The question (default: that of the last recorded search that found it).")
@json_option
@click.pass_obj
def feedback_command(
    session: CommandContext, /, id: str | None, word: str | None, query: str | None, as_json: bool
) -> None:
    """
    Say whether a memory was a good answer to a question, or list what was said. `memorist eval --from-recalls`
    measures by it.

    \b
    Example:
        memorist search "how do we ship?" --record log
        memorist feedback 4f2a91bc good
        memorist feedback 4f2a91bc bad --query "who wrote the parser?"
        memorist feedback
    """
    if id is not None and word is None:
        raise click.UsageError("say whether it was good or bad")
    if id is None and query is not None:
        raise click.UsageError("--query is for a memory: give its id, and good or bad")
    with session.open(embedder="none") as memory:
        said = memory.feedbacks() if id is None else [memory.feedback(id, word == GOOD, query=query)]
    if as_json:
        print_json({"feedback": [record_json(one) for one in said]})
        return
    for one in said:
        click.echo(f"{GOOD if one.good else BAD:<4}  {one.memory[-8:]}  {printable(one.query)}")
    if not said:
        click.echo("Nothing found. `memorist feedback ID good` says that a memory answered a question.", err=True)


def _compared(
    session: CommandContext, wanted: _EvalRequest, sides: tuple[str, str], cache: Path
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Saved runs, profiles, or one of each; those that are not saved are measured now."""
    from dataclasses import replace

    from memorist.evaluate.compare import choose_system, compare_runs
    from memorist.evaluate.report import is_saved_run, load_run
    from memorist.evaluate.systems import parse_config, parse_options

    saved = {side: load_run(side, cache) for side in sides if is_saved_run(side, cache)}
    fresh = [side for side in dict.fromkeys(sides) if side not in saved]
    run: dict[str, Any] = saved.get(sides[1], {})
    if fresh:
        if not wanted.anything:
            raise click.UsageError(f"there is no saved run {fresh[0]!r}; to compare profiles, give a DATASET as well")
        run = _run(session, replace(wanted, profiles=fresh), cache)
    mode = wanted.modes[0] if wanted.modes else "hybrid"
    names = {side: parse_config(side, mode, parse_options(wanted.replaced)).name for side in fresh}
    (before, a), (after, b) = ((saved.get(side, run), names.get(side)) for side in sides)
    return run, compare_runs(before, choose_system(before, a), after, choose_system(after, b), wanted.seed)


def _run(session: CommandContext, wanted: _EvalRequest, cache: Path) -> dict[str, Any]:
    from memorist.embed import create_embedder
    from memorist.embed.base import close_model
    from memorist.embed.reranker import CrossEncoder
    from memorist.evaluate.report import build_run
    from memorist.evaluate.systems import parse_configs, parse_options

    options = session.loaded.settings
    profiles = wanted.profiles or (options.profile,)
    chosen = parse_configs(wanted.modes or ("hybrid",), profiles, parse_options(wanted.replaced))
    model = create_embedder(wanted.embedder or options.embedder, threads=options.threads, models=session.models)
    reranker = CrossEncoder(folder=session.models, threads=options.threads)
    try:
        every = [*_of_sets(wanted, chosen, model, reranker, cache), *_of_own(session, wanted, chosen, model)]
        return build_run(every, version=__version__, embedder=model.model_id if model else None, seed=wanted.seed)
    finally:
        close_model(model)
        close_model(reranker)


def _of_sets(wanted: _EvalRequest, chosen: Sequence[Any], model: Any, reranker: Any, cache: Path) -> Iterator[Any]:
    from memorist.evaluate.dataset import load_dataset
    from memorist.evaluate.evaluation import evaluate_dataset
    from memorist.evaluate.indexing import index_dataset

    for folder in wanted.datasets:
        dataset = load_dataset(folder, wanted.part).select_questions(wanted.scopes, wanted.limit, wanted.seed)
        with ProgressBar(f"{dataset.name}: indexing", len(dataset.documents)) as bar:
            made = index_dataset(dataset, model, cache, reranker=reranker, rebuild=wanted.rebuild, progress=bar)
        with closing(made.memory) as memory:
            yield evaluate_dataset(dataset, chosen, memory, made, relevance=wanted.relevance, progress=_watched)


def _of_own(session: CommandContext, wanted: _EvalRequest, chosen: Sequence[Any], model: Any) -> Iterator[Any]:
    """Questions to the user's own memories, which are only read."""
    from memorist.evaluate.dataset import load_golden_file, load_recalls
    from memorist.evaluate.evaluation import evaluate_dataset

    if not (wanted.golden or wanted.from_recalls):
        return
    with session.open(embedder=model or "none", read_only=True) as memory:
        sets = []
        if wanted.golden:
            dataset, missing = load_golden_file(memory, wanted.golden)
            sets.append(dataset)
            if missing:
                click.echo(f"Note: no memory has these ids of {wanted.golden}: {', '.join(missing)}", err=True)
        if wanted.from_recalls:
            sets.append(load_recalls(memory))
        for dataset in sets:
            if not dataset.questions:
                raise MemoristError(_NOTHING_GOOD if dataset.name == "recalls" else f"{wanted.golden} has no question")
            narrowed = dataset.select_questions(wanted.scopes, wanted.limit, wanted.seed)
            yield evaluate_dataset(narrowed, chosen, memory, relevance=wanted.relevance, progress=_watched)


_NOTHING_GOOD = (
    "no memory was said to be a good answer yet: search with `--record log`, then say `memorist feedback ID good`"
)


@contextmanager
def _watched(label: str, length: int) -> Iterator[ProgressBar]:
    with ProgressBar(label, length) as bar:
        yield bar


def _cache() -> Path:
    from platformdirs import user_cache_path

    return user_cache_path("memorist", appauthor=False)


def _guard(run: Mapping[str, Any], least: float | None) -> None:
    for one in run["sets"] if least is not None else ():
        for way in one["ways"]:
            reached = way["measures"]["ndcg@10"]["mean"]
            if way["name"] in one["chosen"] and reached < least:
                raise MemoristError(f"nDCG@10 of {way['name']} on {one['name']} is {reached:.4f}, below {least:g}")
