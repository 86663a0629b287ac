"""
Measure the time that a hook takes: whole processes, and their stages.

    python bench/hook.py --data DIR                  UserPromptSubmit with 100,000 memories: a minute
    python bench/hook.py --data DIR --size 10000     with fewer memories
    python bench/hook.py --data DIR --json           the same as JSON

Hooks of several kinds are called in turns with a Python that does nothing. The stages are timed in a process that does
the same work step by step. The last stage is repeated in the same process: a process that keeps running would take that
long. bench/README.md explains the table.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).resolve().parent.parent / "src"
COMMAND = "from memorist.cli.app import main; main()"  # as in the installed script `memorist`
STAGES = {
    "command": "importing the command line and hooks",
    "engine": "importing the engine (numpy, apsw)",
    "onnxruntime": "importing onnxruntime",
    "model": "loading the model",
    "open": "opening the database",
    "context": "context: reading vectors, search, block",
}
IMPORT_STAGES = ("command", "engine", "onnxruntime")


def main(arguments: Sequence[str] | None = None) -> None:
    options = _parse_options(arguments)
    if options.inside:
        print(json.dumps(_time_stages(*options.inside)))
        return
    import corpus
    from measurements import format_table

    options.cache.mkdir(parents=True, exist_ok=True)
    halves = corpus.load(options.data, options.cache, None)
    database = corpus.build_database(halves, options.size, options.cache, real=False)
    database.read_bytes()  # a file that was just built is in the system's cache, so it has to be there for every run
    comparisons = _measure(database, options.size, halves.questions, options.questions, options.passes)
    if options.json:
        print(json.dumps([comparison.as_json() for comparison in comparisons], indent=2))
    else:
        print(format_table(comparisons))


def _measure(database: Path, size: int, questions: Sequence[str], items: int, passes: int) -> list[Any]:
    from measurements import Comparison, Percentiles, time_in_turns

    hook = ["-c", COMMAND, "--db", str(database), "hook"]
    tasks: dict[str, Callable[[int], object]] = {
        "python -c pass": lambda item: _run_hook(["-c", "pass"]),
        "UserPromptSubmit": lambda item: _run_hook([*hook, "UserPromptSubmit"], questions[item]),
        "... without a model": lambda item: _run_hook([*hook, "UserPromptSubmit"], questions[item], embedder="none"),
        "... for a prompt that asks nothing": lambda item: _run_hook([*hook, "UserPromptSubmit"], "yes"),
        "SessionStart": lambda item: _run_hook([*hook, "SessionStart"]),
    }
    (idle_name, idle), *hooks = time_in_turns(tasks, items, passes).items()
    comparisons = [Comparison("A hook, start to end", size, name, times, idle_name, idle) for name, times in hooks]
    runs = [
        [json.loads(_run_hook([__file__, "--inside", str(database), question, next_one])) for _ in range(passes)]
        for question, next_one in zip(questions[:items], questions[items : 2 * items], strict=True)
    ]

    def shortest(*names: str) -> Percentiles:
        return Percentiles.of([min(sum(stages[name] for name in names) for stages in of_item) for of_item in runs])

    parts = {label: shortest(name) for name, label in STAGES.items()}
    parts["all imports together"] = shortest(*IMPORT_STAGES)
    parts["the same in a warm process"] = shortest("warm")
    section, whole = "UserPromptSubmit, from inside", dict(hooks)["UserPromptSubmit"]
    return [
        *comparisons,
        *(Comparison(section, size, label, times, "all of it", whole) for label, times in parts.items()),
    ]


def _time_stages(database: str, question: str, next_question: str) -> dict[str, float]:
    """Time the work of the hook stage by stage, and then a second question."""
    marks = [time.perf_counter()]

    def mark() -> None:
        marks.append(time.perf_counter())

    import memorist.cli.agents
    import memorist.hooks

    mark()
    import memorist.engine

    mark()
    from memorist.embed.onnx_models import import_onnxruntime

    import_onnxruntime()  # loading the model would
    mark()
    from memorist.embed.local import LocalEmbedder

    embedder = LocalEmbedder()
    embedder.load()
    mark()
    with memorist.engine.open_memory(database, embedder=embedder) as memory:
        mark()
        memory.context(question, project="p7", budget=1500, core=False)
        mark()
        memory.context(next_question, project="p7", budget=1500, core=False)
        mark()
    times = [(end - begin) * 1000 for begin, end in pairwise(marks)]
    return dict(zip((*STAGES, "warm"), times, strict=True))


def _run_hook(arguments: Sequence[str], prompt: str = "", embedder: str = "local") -> str:
    """Run Python with these arguments, as a client runs a hook; return its output."""
    with tempfile.TemporaryDirectory() as folder:  # without settings of the user or of a project
        project = Path(folder, "p7")
        project.mkdir()
        folders = dict.fromkeys(("XDG_CONFIG_HOME", "XDG_STATE_HOME"), folder)
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("MEMORIST_", "CLAUDE_"))}
        environment = inherited | folders | {"PYTHONPATH": str(SOURCE), "MEMORIST_EMBEDDER": embedder}
        event = json.dumps({"session_id": "s", "cwd": str(project), "prompt": prompt})
        done = subprocess.run(
            [sys.executable, *arguments], input=event, env=environment, cwd=folder, capture_output=True, text=True
        )
        log = next((file.read_text("utf-8") for file in Path(folder).rglob("hooks.log")), "")
    if done.returncode or log:
        raise SystemExit(f"Error: {' '.join(arguments)[:200]} failed: {done.stderr.strip()}{log}")
    return done.stdout


def _parse_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description="Measure the time that a hook takes.", epilog="bench/README.md explains the table."
    )
    parser.add_argument("--data", type=Path, metavar="DIR", help="folder that contains `locomo`")
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir(), "memorist-bench"), metavar="DIR",
                        help="keeps databases between runs (default %(default)s; 100k take 500 MB)")  # fmt: skip
    parser.add_argument(
        "--size", type=int, default=100_000, metavar="N", help="number of memories (default %(default)s)"
    )
    parser.add_argument("--questions", type=int, default=6, metavar="N", help="number of prompts (default %(default)s)")
    parser.add_argument("--passes", type=int, default=5, metavar="N", help="runs of each; the shortest counts")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--inside", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if not options.inside and options.data is None:
        parser.error("--data is required: the folder that contains `locomo`")
    return options


if __name__ == "__main__":
    main()
