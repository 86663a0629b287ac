"""Measurements of whole processes: the first search after a start, the command line, peak memory."""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import memorist
from corpus import Corpus
from measurements import Comparison, Percentiles

NEW_PROCESS = str(Path(__file__).resolve().parent / "new_process.py")
WARM_SEARCHES = 20  # after the first
PROGRAM = "import memorist, sys; memory = memorist.open(sys.argv[1]); memory.search(sys.argv[2]); memory.close()"
COMMAND = "from memorist.cli.app import main; main()"  # as in the installed script `memorist`
MODEL_FOLDER = str(Path(memorist.__file__).parent / "embed" / "bundled")
TARGET_START = 1.5  # at most, of a program that only loads the model
STAGES = {
    "import": "importing memorist",
    "open": "opening the database",
    "onnxruntime": "importing onnxruntime",
    "model": "loading the model",
    "search": "searching, reading vectors",
}


def measure_start(corpus: Corpus, database: Path, size: int, rounds: int) -> list[Comparison]:
    """
    Time new processes in turns: one from inside, small programs, the command line, and Python doing nothing.

    A program that only loads the model and embeds the question is what the first answer is compared to.
    """
    inside: list[dict[str, Any]] = []
    times: dict[str, list[float]] = {"program": [], "command": [], "keyword": [], "python": [], "model": []}
    busy: dict[str, list[float]] = {"program": [], "model": [], "command": [], "keyword": []}
    database.read_bytes()  # a file that was just built is in the system's cache, so it has to be there for every run
    for number in range(rounds):
        question, *more = corpus.questions[number * WARM_SEARCHES : (number + 1) * WARM_SEARCHES + 1]
        command = ["-c", COMMAND, "--db", str(database), "search", question]
        runs = {
            "program": _run_python(["-c", PROGRAM, str(database), question]),
            "model": _run_python([NEW_PROCESS, "embed", MODEL_FOLDER, question]),
            "command": _run_python(command),
            "keyword": _run_python([*command, "--mode", "keyword"]),
            "python": _run_python(["-c", "pass"]),
        }
        for name, run in runs.items():
            times[name].append(run.milliseconds)
        for name, values in busy.items():
            values.append(runs[name].busy)
        inside.append(json.loads(_run_python([NEW_PROCESS, "start", str(database), question, *more]).output))
    section = "New process, file in the system's cache"
    warm = Percentiles.of([result["warm"] for result in inside])
    stages = {
        "first answer, from import on": [sum(result["stages"].values()) for result in inside],
        **{label: [result["stages"][name] for result in inside] for name, label in STAGES.items()},
    }
    labels = {"program": "a program, start to end", "command": "memorist search", "keyword": "... --mode keyword"}
    python = Percentiles.of(times["python"])
    only_model = "only the model: load, embed"
    return [
        *(
            Comparison(
                section,
                size,
                label,
                Percentiles.of(of["program"]),
                only_model,
                Percentiles.of(of["model"]),
                "ms",
                target,
            )
            for label, of, target in (
                ("a program, start to end", times, TARGET_START),
                ("... time of the processor", busy, TARGET_START),
            )
        ),
        *(
            Comparison(
                section,
                size,
                f"{label}, time of the processor",
                Percentiles.of(busy[name]),
                only_model,
                Percentiles.of(busy["model"]),
            )
            for name, label in (("command", "memorist search"), ("keyword", "... --mode keyword"))
        ),
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
                json.loads(_run_python([NEW_PROCESS, "start", str(path), *questions]).output)["peak_mb"]
                for path in (database, small)
            ]
        comparisons.append(_compare_memory(size, "a process that searches", peaks[0], "the same, one memory", peaks[1]))
    scan = json.loads(_run_python([NEW_PROCESS, "scan", str(size), str(corpus.vectors_file)]).output)
    baseline = "the float32 matrix alone"
    comparisons.append(_compare_memory(size, "a process that scans", scan["peak_mb"], baseline, scan["float32_mb"]))
    return comparisons


def _compare_memory(size: int, name: str, megabytes: float, baseline_name: str, baseline: float) -> Comparison:
    value, base = Percentiles(megabytes, megabytes), Percentiles(baseline, baseline)
    return Comparison("Peak memory", size, name, value, baseline_name, base, "MB")


class _Run(NamedTuple):
    """A process that has ended: how long it took, also of the processor, and its output."""

    milliseconds: float
    busy: float
    output: str


def _run_python(arguments: Sequence[str]) -> _Run:
    """Run Python with these arguments."""
    with tempfile.TemporaryDirectory() as folder:  # without settings of the user or of a project
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("MEMORIST_")}
        path = os.pathsep.join([str(Path(memorist.__file__).parent.parent), inherited.get("PYTHONPATH", "")])
        environment = inherited | {"PYTHONPATH": path.strip(os.pathsep), "XDG_CONFIG_HOME": folder}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # what is installed has its bytecode
        started, busy = time.perf_counter(), _busy_children()
        done = subprocess.run(
            [sys.executable, *arguments], env=environment, cwd=folder, capture_output=True, text=True, encoding="utf-8"
        )
        took = (time.perf_counter() - started) * 1000
    if done.returncode or "Note: keyword" in done.stderr or "have no vector" in done.stderr:
        raise SystemExit(f"Error: {' '.join(arguments)[:200]} failed: {done.stderr.strip()}")
    return _Run(took, (_busy_children() - busy) * 1000, done.stdout)


def _busy_children() -> float:
    """Return the seconds of the processor of all processes that were run so far."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
