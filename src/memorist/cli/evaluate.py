"""Commands to try Memorist and to measure it: the demo, and search quality on datasets and on your own memories."""

import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import click
from msgspec import Struct

from memorist import __version__
from memorist.cli.app import CommandContext, print_note
from memorist.cli.options import (
    ProgressBar,
    answer_options,
    combine_options,
    embedder_option,
    print_answer,
    style,
)
from memorist.errors import MemoristError
from memorist.ids import shorten_id
from memorist.present.render import hit_text, printable, printable_line, record_json

_GOOD, _BAD = "good", "bad"
_NO_RATINGS = (
    "no memory is rated as a good answer yet: search with `--record log`, then run `memorist feedback ID good`"
)

_profile_options = combine_options(
    click.option("--mode", "modes", multiple=True, help="hybrid (the default), keyword or semantic (repeat)."),
    click.option(
        "--profile", "profiles", multiple=True, metavar="NAME[:OPTION=VALUE,...]", help="How to rank (repeat)."
    ),
    click.option(
        "--set", "replaced", multiple=True, metavar="OPTION=VALUE", help="Replace an option of every profile."
    ),
    embedder_option,
)
_question_options = combine_options(
    click.option("--golden", type=click.Path(path_type=Path), help="Questions to your own memories (see above)."),
    click.option(
        "--from-recalls", is_flag=True, help="Questions whose answers were rated good with `memorist feedback`."
    ),
    click.option("--part", metavar="NAME", help="The part of a dataset that has several: train, dev, test ..."),
    click.option("--scope", "scopes", multiple=True, help="Only questions of this scope (repeat for several)."),
    click.option(
        "--limit", "-n", type=click.IntRange(1), help="At most this many questions of each dataset, drawn at random."
    ),
    click.option(
        "--seed", type=click.IntRange(0), default=0, show_default=True, help="The seed of all random choices."
    ),
)
_output_options = combine_options(
    click.option("--cache", type=click.Path(path_type=Path), help="The folder for databases and runs."),
    click.option("--rebuild", is_flag=True, help="Rebuild the databases of the datasets and the reranker's scores."),
    click.option("--save", metavar="NAME", help="Save the run with every answer, under a name or as FILE.json."),
    click.option("--html", type=click.Path(path_type=Path), help="Write an HTML page with plots."),
)


class _EvalRequest(Struct, frozen=True):
    """The questions to measure with, and the ways of searching to measure."""

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
    def has_questions(self) -> bool:
        return bool(self.datasets or self.golden or self.from_recalls)


@click.command("eval")
@click.argument("datasets", nargs=-1, type=click.Path(path_type=Path))
@_question_options
@_profile_options
@click.option("--relevance", is_flag=True, help="Also measure whether relevance tells questions without an answer.")
@click.option("--compare", nargs=2, metavar="A B", help="Show what changed between two saved runs, or two profiles.")
@click.option("--show", default=5, show_default=True, help="How many of the changed questions to show.")
@click.option("--min-ndcg", type=float, help="Exit with 1 if nDCG@10 of a chosen profile is below this.")
@_output_options
@answer_options
def eval_command(
    context: CommandContext,
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
    Measure how well memories are found. DATASETS are folders in BEIR's format: corpus.jsonl, queries.jsonl, qrels.tsv.

    The chosen profiles are marked with *. Each leg alone and grep are measured for comparison.

    \b
    A golden file has a question on each line, with the memories that answer it, or their grades:
        {"query": "how do we ship?", "relevant": ["4f2a91bc"]}
        {"query": "who wrote it?", "relevant": {"9c03d7e5": 2}, "project": "api", "category": "people"}

    \b
    Example:
        memorist eval data/scifact --part train --profile balanced --profile rank
        memorist eval data/scifact --compare balanced balanced:alpha=.3
        memorist eval --from-recalls
    """
    from memorist.atomic_file import open_output
    from memorist.evaluate.html_report import render_page
    from memorist.evaluate.report import drop_answers, format_comparisons, format_run, save_run

    request, cache = _EvalRequest(**options), cache or context.cache_folder
    if compare:
        run, changes = _compare_runs(context, request, compare, cache)
    else:
        if not request.has_questions:
            raise click.UsageError("nothing to measure: give a DATASET, --golden or --from-recalls")
        run, changes = _measure_run(context, request, cache), []
    if save:
        click.echo(f"Saved as {printable_line(str(save_run(run, save, cache)))}", err=True)
    if html:
        with open_output(html, new_mode=0o600) as page:  # it quotes memories
            page.write(render_page(run, changes).encode())
    lines = format_comparisons(changes, show) if compare else format_run(run)
    print_answer(as_json, drop_answers(run) | ({"changes": changes} if changes else {}), map(printable, lines))
    _check_quality(run, min_ndcg)


@click.command("feedback")
@click.argument("id", required=False)
@click.argument("rating", metavar="[good|bad]", required=False, type=click.Choice((_GOOD, _BAD)))
@click.option("--query", metavar="TEXT", help="The question (default: the last recorded search that found the memory).")
@answer_options
def feedback_command(
    context: CommandContext, /, id: str | None, rating: str | None, query: str | None, as_json: bool
) -> None:
    """
    Rate a memory as the answer to a question, or list ratings. `memorist eval --from-recalls` uses them.

    \b
    Example:
        memorist search "how do we ship?" --record log
        memorist feedback 4f2a91bc good
        memorist feedback 4f2a91bc bad --query "who wrote the parser?"
        memorist feedback
    """
    if id is not None and rating is None:
        raise click.UsageError("add a rating: good or bad")
    if id is None and query is not None:
        raise click.UsageError("--query needs a memory: give its id, and good or bad")
    with context.open(embedder="none") as memory:
        searches, is_good = memory.searches, rating == _GOOD
        ratings = searches.list_feedback() if id is None else [searches.add_feedback(id, is_good, query=query)]
    print_answer(
        as_json,
        {"feedback": [record_json(feedback) for feedback in ratings]},
        (printable(f"{_GOOD if one.good else _BAD:<4}  {shorten_id(one.memory)}  {one.query}") for one in ratings),
        "Nothing found. `memorist feedback ID good` rates a memory.",
    )


def _compare_runs(
    context: CommandContext, request: _EvalRequest, sides: tuple[str, str], cache: Path
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Compare saved runs, profiles, or one of each; profiles are measured now."""
    from msgspec.structs import replace

    from memorist.evaluate.evaluation import parse_config, parse_options
    from memorist.evaluate.report import choose_system, compare_runs, is_saved_run, load_run

    saved = {side: load_run(side, cache) for side in sides if is_saved_run(side, cache)}
    fresh = [side for side in dict.fromkeys(sides) if side not in saved]
    run: dict[str, Any] = saved.get(sides[1], {})
    if fresh:
        if not request.has_questions:
            raise click.UsageError(f"there is no saved run {fresh[0]!r}; to compare profiles, give a DATASET as well")
        run = _measure_run(context, replace(request, profiles=fresh), cache)
    mode = request.modes[0] if request.modes else "hybrid"
    names = {side: parse_config(side, mode, parse_options(request.replaced)).name for side in fresh}
    (before, a), (after, b) = ((saved.get(side, run), names.get(side)) for side in sides)
    return run, compare_runs(before, choose_system(before, a), after, choose_system(after, b), request.seed)


def _measure_run(context: CommandContext, request: _EvalRequest, cache: Path) -> dict[str, Any]:
    from memorist.embed import create_embedder
    from memorist.embed.base import close_model
    from memorist.embed.local import CrossEncoder
    from memorist.evaluate.evaluation import parse_configs, parse_options
    from memorist.evaluate.report import build_run

    options = context.loaded.settings
    profiles = request.profiles or (options.profile,)
    chosen = parse_configs(request.modes or ("hybrid",), profiles, parse_options(request.replaced))
    model = create_embedder(request.embedder or options.embedder, threads=options.threads)
    reranker = CrossEncoder(folder=context.models, threads=options.threads)
    try:
        evaluations = [
            *_measure_datasets(request, chosen, model, reranker, cache),
            *_measure_own(context, request, chosen, model),
        ]
        return build_run(
            evaluations, version=__version__, embedder=model.model_id if model else None, seed=request.seed
        )
    finally:
        close_model(model)
        close_model(reranker)


def _measure_datasets(
    request: _EvalRequest, chosen: Sequence[Any], model: Any, reranker: Any, cache: Path
) -> Iterator[Any]:
    from memorist.evaluate.dataset import load_dataset
    from memorist.evaluate.evaluation import evaluate_dataset
    from memorist.evaluate.indexing import index_dataset

    for folder in request.datasets:
        dataset = load_dataset(folder, request.part).select_questions(request.scopes, request.limit, request.seed)
        with ProgressBar(f"{dataset.name}: indexing", len(dataset.documents)) as bar:
            indexed = index_dataset(dataset, model, cache, reranker=reranker, rebuild=request.rebuild, progress=bar)
        with closing(indexed.memory) as memory:
            yield evaluate_dataset(dataset, chosen, memory, indexed, relevance=request.relevance, progress=ProgressBar)


def _measure_own(context: CommandContext, request: _EvalRequest, chosen: Sequence[Any], model: Any) -> Iterator[Any]:
    """Measure with questions to the user's own memories, which are only read."""
    from memorist.evaluate.dataset import GOLDEN_EXAMPLE, load_golden_file, load_recalls
    from memorist.evaluate.evaluation import evaluate_dataset

    if not (request.golden or request.from_recalls):
        return
    with context.open(embedder=model or "none", read_only=True) as memory:
        sets = []
        if request.golden:
            dataset, missing = load_golden_file(memory, request.golden)
            sets.append(dataset)
            if missing:
                print_note(f"no memory has these ids of {request.golden}: {', '.join(missing)}")
        if request.from_recalls:
            sets.append(load_recalls(memory))
        for dataset in sets:
            if not dataset.questions:
                nothing = f"{request.golden} has no question that a memory answers; write one on each line, such as"
                raise MemoristError(_NO_RATINGS if dataset.name == "recalls" else f"{nothing} {GOLDEN_EXAMPLE}")
            narrowed = dataset.select_questions(request.scopes, request.limit, request.seed)
            yield evaluate_dataset(narrowed, chosen, memory, relevance=request.relevance, progress=ProgressBar)


def _check_quality(run: Mapping[str, Any], min_ndcg: float | None) -> None:
    """Raise MemoristError if a chosen profile is below the required nDCG@10."""
    for dataset in run["sets"] if min_ndcg is not None else ():
        for way in dataset["ways"]:
            ndcg = way["measures"]["ndcg@10"]["mean"]
            if way["name"] in dataset["chosen"] and ndcg < min_ndcg:
                raise MemoristError(f"nDCG@10 of {way['name']} on {dataset['name']} is {ndcg:.4f}, below {min_ndcg:g}")


# The demo: a small memory about a software project, and three questions to it

_DEMO_QUESTIONS = (
    ("pictures look outdated on phones", "The memory that answers shares no word with it: only meaning finds it."),
    ("9f3c2ab", "A commit id has little meaning, hence the low cosine: the exact word makes the match certain."),
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
    from memorist.engine import open_memory
    from memorist.engine.sample import add_sample

    paint = style()
    with open_memory(":memory:") as memory:
        sample = add_sample(memory)
        click.echo(f"Remembered {sample.added} things about a software project, in a temporary database.\n")
        for question, remark in _DEMO_QUESTIONS:
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
