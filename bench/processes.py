"""The figures of whole processes: the first search after a start, the command line, peak memory."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import memorist
from corpus import Corpus
from figures import Figure, Spread

HERE = Path(__file__).resolve().parent
WARM = 20  # searches after the first
COMMAND = "from memorist.cli.app import main; main()"  # what the installed script `memorist` runs
STAGES = {
    "import": "importing memorist",
    "open": "opening the database",
    "onnxruntime": "importing onnxruntime",
    "model": "loading the model",
    "search": "searching: vectors read",
}


def starting(corpus: Corpus, database: Path, size: int, times: int) -> list[Figure]:
    """New processes of three kinds in turns: one from inside, the command line, and Python doing nothing."""
    inside: list[dict[str, Any]] = []
    walls: dict[str, list[float]] = {"program": [], "command": [], "keyword": [], "python": []}
    # A file that was just built is in the system's cache; so it is for every run then.
    database.read_bytes()
    for turn in range(times):
        question, *more = corpus.questions[turn * WARM : turn * WARM + WARM + 1]
        command = ["-c", COMMAND, "--db", str(database), "search", question]
        walls["program"].append(_wall([str(HERE / "fresh.py"), "start", str(database), question])[0])
        walls["command"].append(_wall(command)[0])
        walls["keyword"].append(_wall([*command, "--mode", "keyword"])[0])
        walls["python"].append(_wall(["-c", "pass"])[0])
        inside.append(json.loads(_wall([str(HERE / "fresh.py"), "start", str(database), question, *more])[1]))
    section = "New process, file in the system's cache"
    warm = Spread.of([one["warm"] for one in inside])
    whole = [sum(one["stages"].values()) for one in inside]
    stages = [
        Figure(section, size, what, Spread.of([one["stages"][name] for one in inside]), "a warm search", warm)
        for name, what in STAGES.items()
    ]
    names = {"program": "a program, start to end", "command": "memorist search", "keyword": "... --mode keyword"}
    return [
        Figure(section, size, "first answer, from import on", Spread.of(whole), "a warm search", warm),
        *stages,
        *(
            Figure(section, size, what, Spread.of(walls[name]), "python -c pass", Spread.of(walls["python"]))
            for name, what in names.items()
        ),
    ]


def memory(corpus: Corpus, database: Path | None, size: int) -> list[Figure]:
    """Peak resident memory: of a process that searches, and of one that only scans vectors."""
    section, figures = "Peak memory", []
    if database is not None:
        with tempfile.TemporaryDirectory() as folder:
            empty = Path(folder, "empty.db")
            with memorist.open(empty) as one:
                one.add("the only memory")
            questions = list(corpus.questions[:WARM])
            full, least = (
                json.loads(_wall([str(HERE / "fresh.py"), "start", str(path), *questions])[1])["peak_mb"]
                for path in (database, empty)
            )
        figures.append(_megabytes(section, size, "a process that searches", full, "the same, one memory", least))
    scanned = json.loads(_wall([str(HERE / "fresh.py"), "scan", str(size), str(corpus.vectors_file)])[1])
    against = "the float32 matrix alone"
    figures.append(
        _megabytes(section, size, "a process that scans", scanned["peak_mb"], against, scanned["float32_mb"])
    )
    return figures


def _megabytes(section: str, size: int, what: str, value: float, against: str, base: float) -> Figure:
    return Figure(section, size, what, Spread(value, value), against, Spread(base, base), "MB")


def _wall(arguments: Sequence[str]) -> tuple[float, str]:
    """Run Python with these arguments: how long it took in milliseconds, and what it printed."""
    with tempfile.TemporaryDirectory() as folder:  # no settings of the user or of a project in sight
        own = {name: value for name, value in os.environ.items() if not name.startswith("MEMORIST_")}
        path = os.pathsep.join([str(Path(memorist.__file__).parent.parent), own.get("PYTHONPATH", "")])
        environment = own | {"PYTHONPATH": path.strip(os.pathsep), "XDG_CONFIG_HOME": folder}
        started = time.perf_counter()
        done = subprocess.run(
            [sys.executable, *arguments], env=environment, cwd=folder, capture_output=True, text=True, encoding="utf-8"
        )
        took = (time.perf_counter() - started) * 1000
    if done.returncode or "Note: keyword" in done.stderr or "have no vector" in done.stderr:
        raise SystemExit(f"Error: {' '.join(arguments)[:200]} failed: {done.stderr.strip()}")
    return took, done.stdout
