"""
What a hook costs the agent that calls it: whole processes, and where their time goes.

    python bench/hook.py --data DIR                  UserPromptSubmit with 100,000 memories: a minute
    python bench/hook.py --data DIR --size 10000     with fewer
    python bench/hook.py --data DIR --json           the same figures for a program

Hooks of several kinds are called in turns with a Python that does nothing. The stages are timed inside a process that
does what the hook does, one after the other; the last is done again in the same process, which is what one that keeps
running would take. bench/README.md says how to read the table.
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
COMMAND = "from memorist.cli.app import main; main()"  # what the installed script `memorist` runs
STAGES = {
    "command": "importing the command line and hooks",
    "engine": "importing the engine (numpy, apsw)",
    "onnxruntime": "importing onnxruntime",
    "model": "loading the model",
    "open": "opening the database",
    "context": "context: vectors read, search, block",
}
IMPORTING = ("command", "engine", "onnxruntime")


def main(arguments: Sequence[str] | None = None) -> None:
    options = _options(arguments)
    if options.inside:
        print(json.dumps(_inside(*options.inside)))
        return
    import corpus
    from figures import table

    options.cache.mkdir(parents=True, exist_ok=True)
    data = corpus.load(options.data, options.cache, None)
    database = corpus.database(data, options.size, options.cache, real=False)
    database.read_bytes()  # one that was just built is in the system's cache; so it is for every run then
    figures = _measured(database, options.size, data.questions, options.questions, options.passes)
    if options.json:
        print(json.dumps([figure.as_json() for figure in figures], indent=2))
    else:
        print(table(figures))


def _measured(database: Path, size: int, questions: Sequence[str], items: int, passes: int) -> list[Any]:
    from figures import Figure, Spread, interleave

    hook = ["-c", COMMAND, "--db", str(database), "hook"]
    kinds: dict[str, Callable[[int], object]] = {
        "python -c pass": lambda item: _run(["-c", "pass"]),
        "UserPromptSubmit": lambda item: _run([*hook, "UserPromptSubmit"], questions[item]),
        "... without a model": lambda item: _run([*hook, "UserPromptSubmit"], questions[item], embedder="none"),
        "... of a prompt that asks nothing": lambda item: _run([*hook, "UserPromptSubmit"], "yes"),
        "SessionStart": lambda item: _run([*hook, "SessionStart"]),
    }
    nothing, *walls = interleave(kinds, items, passes).items()
    figures = [Figure("A hook, start to end", size, name, spread, nothing[0], nothing[1]) for name, spread in walls]
    runs = [
        [json.loads(_run([__file__, "--inside", str(database), question, again])) for _ in range(passes)]
        for question, again in zip(questions[:items], questions[items : 2 * items], strict=True)
    ]
    stages = {name: Spread.of([min(one[name] for one in times) for times in runs]) for name in (*STAGES, "warm")}
    importing = Spread.of([min(sum(one[name] for name in IMPORTING) for one in times) for times in runs])
    section, whole = "UserPromptSubmit, from inside", dict(walls)["UserPromptSubmit"]
    figures += [Figure(section, size, what, stages[name], "all of it", whole) for name, what in STAGES.items()]
    figures.append(Figure(section, size, "all imports together", importing, "all of it", whole))
    figures.append(Figure(section, size, "the same in a warm process", stages["warm"], "all of it", whole))
    return figures


def _inside(database: str, question: str, again: str) -> dict[str, float]:
    """What the hook does, a stage at a time."""
    marks = [time.perf_counter()]

    def mark() -> None:
        marks.append(time.perf_counter())

    import memorist.cli.agents
    import memorist.hooks.run

    mark()
    import memorist.engine

    mark()
    import onnxruntime  # noqa: F401 - what loading the model would import

    mark()
    from memorist.embed.local import LocalEmbedder

    embedder = LocalEmbedder()
    embedder.load()
    mark()
    with memorist.engine.open_memory(database, embedder=embedder) as memory:
        mark()
        memory.context(question, project="p7", budget=1500, core=False)
        mark()
        memory.context(again, project="p7", budget=1500, core=False)
        mark()
    took = [(after - before) * 1000 for before, after in pairwise(marks)]
    return dict(zip((*STAGES, "warm"), took, strict=True))


def _run(arguments: Sequence[str], prompt: str = "", embedder: str = "local") -> str:
    """Run Python with these arguments, as a client runs a hook; what it printed."""
    with tempfile.TemporaryDirectory() as folder:  # no settings of the user or of a project in sight
        project = Path(folder, "p7")
        project.mkdir()
        places = dict.fromkeys(("XDG_CONFIG_HOME", "XDG_STATE_HOME"), folder)
        own = {name: value for name, value in os.environ.items() if not name.startswith(("MEMORIST_", "CLAUDE_"))}
        environment = own | places | {"PYTHONPATH": str(SOURCE), "MEMORIST_EMBEDDER": embedder}
        given = json.dumps({"session_id": "s", "cwd": str(project), "prompt": prompt})
        done = subprocess.run(
            [sys.executable, *arguments], input=given, env=environment, cwd=folder, capture_output=True, text=True
        )
        log = next((file.read_text("utf-8") for file in Path(folder).rglob("hooks.log")), "")
    if done.returncode or log:
        raise SystemExit(f"Error: {' '.join(arguments)[:200]} failed: {done.stderr.strip()}{log}")
    return done.stdout


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="What a hook costs.", epilog="See bench/README.md for how to read it.")
    parser.add_argument("--data", type=Path, metavar="DIR", help="holds the folder locomo")
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir(), "memorist-bench"), metavar="DIR",
                        help="keeps what was built between runs (default %(default)s; 100k take 500 MB)")  # fmt: skip
    parser.add_argument("--size", type=int, default=100_000, metavar="N", help="memories (default %(default)s)")
    parser.add_argument("--questions", type=int, default=6, metavar="N", help="prompts (default %(default)s)")
    parser.add_argument("--passes", type=int, default=5, metavar="N", help="runs of each, the shortest of which counts")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--inside", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if not options.inside and options.data is None:
        parser.error("--data is needed: the folder that holds the folder locomo")
    return options


if __name__ == "__main__":
    main()
