"""Measurements of whole processes: the first search after a start, the command line, peak memory."""

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
from measurements import Comparison, Percentiles

NEW_PROCESS = str(Path(__file__).resolve().parent / "new_process.py")
WARM_SEARCHES = 20  # after the first
COMMAND = "from memorist.cli.app import main; main()"  # as in the installed script `memorist`
STAGES = {
    "import": "importing memorist",
    "open": "opening the database",
    "onnxruntime": "importing onnxruntime",
    "model": "loading the model",
    "search": "searching, reading vectors",
}


def measure_start(corpus: Corpus, database: Path, size: int, rounds: int) -> list[Comparison]:
    """Time new processes in turns: one from inside, small programs, the command line, and Python doing nothing."""
    inside: list[dict[str, Any]] = []
    times: dict[str, list[float]] = {"program": [], "command": [], "keyword": [], "python": []}
    database.read_bytes()  # a file that was just built is in the system's cache, so it has to be there for every run
    for number in range(rounds):
        question, *more = corpus.questions[number * WARM_SEARCHES : (number + 1) * WARM_SEARCHES + 1]
        command = ["-c", COMMAND, "--db", str(database), "search", question]
        times["program"].append(_run_python([NEW_PROCESS, "start", str(database), question])[0])
        times["command"].append(_run_python(command)[0])
        times["keyword"].append(_run_python([*command, "--mode", "keyword"])[0])
        times["python"].append(_run_python(["-c", "pass"])[0])
        inside.append(json.loads(_run_python([NEW_PROCESS, "start", str(database), question, *more])[1]))
    section = "New process, file in the system's cache"
    warm = Percentiles.of([result["warm"] for result in inside])
    stages = {
        "first answer, from import on": [sum(result["stages"].values()) for result in inside],
        **{label: [result["stages"][name] for result in inside] for name, label in STAGES.items()},
    }
    labels = {"program": "a program, start to end", "command": "memorist search", "keyword": "... --mode keyword"}
    python = Percentiles.of(times["python"])
    return [
        *(
            Comparison(section, size, label, Percentiles.of(values), "a warm search", warm)
            for label, values in stages.items()
        ),
        *(
            Comparison(section, size, label, Percentiles.of(times[name]), "python -c pass", python)
            for name, label in labels.items()
        ),
    ]


def measure_memory(corpus: Corpus, database: Path | None, size: int) -> list[Comparison]:
    """Measure the peak memory of a process that searches, and of one that only scans vectors."""
    comparisons = []
    if database is not None:
        with tempfile.TemporaryDirectory() as folder:
            small = Path(folder, "small.db")
            with memorist.open(small) as memory:
                memory.add("the only memory")
            questions = corpus.questions[:WARM_SEARCHES]
            peaks = [
                json.loads(_run_python([NEW_PROCESS, "start", str(path), *questions])[1])["peak_mb"]
                for path in (database, small)
            ]
        comparisons.append(_compare_memory(size, "a process that searches", peaks[0], "the same, one memory", peaks[1]))
    scan = json.loads(_run_python([NEW_PROCESS, "scan", str(size), str(corpus.vectors_file)])[1])
    baseline = "the float32 matrix alone"
    comparisons.append(_compare_memory(size, "a process that scans", scan["peak_mb"], baseline, scan["float32_mb"]))
    return comparisons


def _compare_memory(size: int, name: str, megabytes: float, baseline_name: str, baseline: float) -> Comparison:
    value, base = Percentiles(megabytes, megabytes), Percentiles(baseline, baseline)
    return Comparison("Peak memory", size, name, value, baseline_name, base, "MB")


def _run_python(arguments: Sequence[str]) -> tuple[float, str]:
    """Run Python with these arguments; return the time in milliseconds and the output."""
    with tempfile.TemporaryDirectory() as folder:  # without settings of the user or of a project
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("MEMORIST_")}
        path = os.pathsep.join([str(Path(memorist.__file__).parent.parent), inherited.get("PYTHONPATH", "")])
        environment = inherited | {"PYTHONPATH": path.strip(os.pathsep), "XDG_CONFIG_HOME": folder}
        started = time.perf_counter()
        done = subprocess.run(
            [sys.executable, *arguments], env=environment, cwd=folder, capture_output=True, text=True, encoding="utf-8"
        )
        took = (time.perf_counter() - started) * 1000
    if done.returncode or "Note: keyword" in done.stderr or "have no vector" in done.stderr:
        raise SystemExit(f"Error: {' '.join(arguments)[:200]} failed: {done.stderr.strip()}")
    return took, done.stdout
