"""
Compare Memorist with its peers: the same texts, the same vectors, the same machine, in turns.

    python bench/compare.py --data DIR                              1k, 10k and 100k rows, all systems
    python bench/compare.py --data DIR --sizes 1M --only Memorist,usearch
    python bench/compare.py --data DIR --out FILE.json              also everything that was measured, as JSON
    python bench/compare.py --draw FILE.json --chart FILE.svg       the growth of a hybrid search, from that

Each system runs in a process of its own, in an environment that is made when it is first needed (peers/systems.json
says of what), and keeps its rows in a folder of its own. Vectors are given to all, so nobody's model is measured.
Approximate indexes are tuned first: the least effort that reaches a recall@10 of .95 on other questions than those that
are timed. Then all answer the same questions, block by block in turns, in several rounds. Beside every time stands what
it found: the recall@10 against exact search for vectors, and the overlap@10 with exact BM25 for words.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import corpus
from charts import draw_lines
from exact_search import ExactSearch
from measurements import format_size

HERE = Path(__file__).parent
PEERS = HERE / "peers"
SPARE_ROWS = 2_000  # to add one by one
QUESTIONS, WARM_UP, BLOCK, FEWEST, ROUNDS = 200, 40, 20, 5, 3
SECONDS = 10.0  # for all questions of one kind in a round: a slow system answers fewer of them
ADDS = 100
STARTS = 5
WORKERS = 8
WORKER_QUESTIONS = 40
RECALL = 0.95


@dataclass
class Measured:
    """All that was measured of a system at one size."""

    name: str
    is_part: bool
    searches: dict[str, dict[str, Any]] = field(default_factory=dict)
    figures: dict[str, Any] = field(default_factory=dict)


class Servant:
    """A system in its process."""

    def __init__(self, name: str, python: Path, module: str, data: Path, folder: Path) -> None:
        self.name = name
        self._process = subprocess.Popen(
            [python, PEERS / f"{module}.py", data, folder],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8", env=quiet_environment(),
        )  # fmt: skip

    def send(self, *command: Any) -> None:
        assert self._process.stdin is not None
        print(json.dumps(command), file=self._process.stdin, flush=True)

    def read(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"Error: {self.name} has ended, see above")
        return json.loads(line)

    def ask(self, *command: Any) -> Any:
        self.send(*command)
        return self.read()

    def end(self) -> None:
        self._process.kill()
        self._process.wait()


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Compare Memorist with its peers.")
    parser.add_argument("--data", type=Path, metavar="DIR", help="folder that contains `locomo`")
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir(), "memorist-bench"), metavar="DIR")
    parser.add_argument("--sizes", default="1k,10k,100k", help="numbers of rows (default %(default)s)")
    parser.add_argument("--only", help="systems, separated by commas")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="of all questions (default %(default)s)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="also write everything as JSON")
    parser.add_argument("--draw", type=Path, metavar="FILE", help="draw what was measured before, and measure nothing")
    parser.add_argument("--chart", type=Path, metavar="FILE", help="the chart, as SVG")
    parser.add_argument("--search", default="hybrid", help="that the chart shows (default %(default)s)")
    options = parser.parse_args(arguments)
    if options.draw:
        draw(options.draw, options.search, options.chart)
        return
    if not options.data:
        parser.error("--data is needed to measure")
    systems: dict[str, dict[str, Any]] = json.loads((PEERS / "systems.json").read_text("utf-8"))
    if options.only:
        systems = {name: systems[name] for name in options.only.split(",")}
    refresh_memorist(options.cache, systems)
    results = json.loads(options.out.read_text("utf-8")) if options.out and options.out.exists() else {}
    for size in map(parse_size, options.sizes.split(",")):
        chosen = {name: system for name, system in systems.items() if system["most_rows"] >= size}
        measured = compare(options, chosen, size)
        print(format_results(size, measured), flush=True)
        results[str(size)] = [vars(one) for one in measured]
        if options.out:
            options.out.write_text(json.dumps(results, indent=1), "utf-8")


def draw(file: Path, search: str, chart: Path) -> None:
    """Draw how the time of a search grows with the rows, of every system that was measured at two sizes or more."""
    lines: dict[str, list[tuple[float, float]]] = {}
    for size, systems in json.loads(file.read_text("utf-8")).items():
        for one in systems:
            if search in one["searches"]:
                lines.setdefault(one["name"], []).append((int(size), one["searches"][search]["p50"]["median"]))
    grown = {name: sorted(points) for name, points in lines.items() if len(points) > 1}
    chart.write_text(draw_lines(f"{search.capitalize()} search, median, by rows", grown, "ms"), "utf-8")


def parse_size(text: str) -> int:
    return int(text.replace("k", "000").replace("M", "000000"))


def compare(options: argparse.Namespace, systems: dict[str, dict[str, Any]], size: int) -> list[Measured]:
    """Measure all systems with so many rows."""
    data = write_data(options, size)
    exact = ExactSearch(data, size, QUESTIONS + WARM_UP)
    measured = [Measured(name, system["is_part"]) for name, system in systems.items()]
    with ExitStack() as stack:
        folders = {name: Path(stack.enter_context(tempfile.TemporaryDirectory(dir=options.cache))) for name in systems}

        def start(name: str) -> Servant:
            python = make_environment(options.cache, systems[name])
            return Servant(name, python, systems[name]["module"], data, folders[name])

        servants = []
        for one in measured:
            say(f"{format_size(size)}: {one.name} writes")
            servant = start(one.name)
            stack.callback(servant.end)
            servants.append(servant)
            environment = options.cache / "environments" / systems[one.name]["environment"]
            one.figures |= servant.ask("describe") | {"installed": float((environment / "megabytes").read_text())}
            took = servant.ask("load", size)
            one.figures |= {"rows_per_second": size / (took["write"] + took["index"]), **took}
            for search in servant.ask("list_searches"):
                one.searches[search] = {"took": [], "found": {}}
            tune(servant, one, exact)
        measure_searches(servants, measured, options.rounds)
        measure_adds(servants, measured, size)
        measure_threads(servants, measured)
        for servant in servants:
            servant.end()
        for one in measured:
            say(f"{format_size(size)}: {one.name} in new processes")
            with started(start, one.name) as servant:
                measure_use(servant, one)
            if one.figures["shares_processes"]:
                measure_processes(start, one)
        measure_starts(options, systems, measured, data, folders)
    for one in measured:
        summarise(one, exact)
    return measured


def write_data(options: argparse.Namespace, size: int) -> Path:
    """Write the rows and questions for the servants, once."""
    options.cache.mkdir(parents=True, exist_ok=True)
    halves = corpus.load(options.data, options.cache, None)
    folder: Path = options.cache / f"rows-{size}-{halves.digest}"
    done = folder / "done"
    if done.exists():
        return folder
    say(f"{format_size(size)}: makes rows and vectors")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    texts, pairs = halves.make_texts(size + SPARE_ROWS)
    vectors = np.lib.format.open_memmap(
        folder / "vectors.npy", "w+", np.float32, (len(pairs), halves.head_vectors.shape[1])
    )
    for number, start in enumerate(range(0, len(pairs), corpus.VECTOR_BATCH)):
        rows = slice(start, start + corpus.VECTOR_BATCH)
        vectors[rows] = corpus.derive_vectors(halves.head_vectors, halves.tail_vectors, pairs[rows], number)
    vectors.flush()
    (folder / "texts.json").write_text(json.dumps(texts), "utf-8")
    (folder / "questions.json").write_text(json.dumps(halves.questions[: QUESTIONS + WARM_UP]), "utf-8")
    np.save(folder / "question-vectors.npy", halves.question_vectors[: QUESTIONS + WARM_UP])
    np.save(folder / "first-vector.npy", halves.question_vectors[0])
    done.touch()
    return folder


def make_environment(cache: Path, system: dict[str, Any]) -> Path:
    """Return the Python of an environment with the system's packages; make it if needed."""
    folder: Path = cache / "environments" / system["environment"]
    python, stamp = folder / "bin" / "python", folder / "requirements.json"
    requirements = json.dumps(system["requirements"])
    if not stamp.exists() or stamp.read_text() != requirements:
        say(f"installs {', '.join(system['requirements'])}")
        maker = find_python() if system["loads_extensions"] else sys.executable
        subprocess.run([maker, "-m", "venv", "--clear", folder], check=True)
        empty = folder_megabytes(folder)
        named = [str(HERE.parent) if name == "memorist" else name for name in system["requirements"]]
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-compile", *named], check=True)
        (folder / "megabytes").write_text(str(folder_megabytes(folder) - empty))
        stamp.write_text(requirements)
    return python


def refresh_memorist(cache: Path, systems: dict[str, dict[str, Any]]) -> None:
    """Install this checkout again: what is measured is what is here."""
    if system := systems.get("Memorist"):
        python = make_environment(cache, system)
        again = ["install", "--quiet", "--no-compile", "--no-deps", "--force-reinstall", str(HERE.parent)]
        subprocess.run([python, "-m", "pip", *again], check=True)


def find_python() -> str:
    """Return a Python whose sqlite3 can load extensions, which the one that runs here may have been built without."""
    program = "import sqlite3; sqlite3.Connection.enable_load_extension"
    for folder in os.get_exec_path():
        python = shutil.which("python3", path=folder)
        if python and subprocess.run([python, "-c", program], capture_output=True).returncode == 0:
            return python
    raise SystemExit("Error: no Python whose sqlite3 loads extensions was found. On Debian, install python3-venv")


def folder_megabytes(folder: Path) -> float:
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file()) / 1_000_000


def tune(servant: Servant, measured: Measured, exact: ExactSearch) -> None:
    """Take the least effort whose recall is high enough, on the questions that warm up."""
    for effort in measured.figures["efforts"]:
        servant.ask("set_effort", effort)
        measured.figures["effort"] = effort
        found = servant.ask("search", "meaning", QUESTIONS, WARM_UP)["found"]
        numbered = dict(enumerate(found, QUESTIONS))
        if exact.recall("meaning", numbered) >= RECALL:
            return


def measure_searches(servants: list[Servant], measured: list[Measured], rounds: int) -> None:
    """Let all systems answer the same questions, block by block in turns."""
    for servant, one in zip(servants, measured, strict=True):
        say(f"{one.name} warms up")
        servant.ask("settle", QUESTIONS, WARM_UP)
        for search, results in one.searches.items():
            servant.ask("search", search, QUESTIONS, 1)
            results["affordable"] = afford(servant, search, QUESTIONS)
            servant.ask("search", search, QUESTIONS, min(WARM_UP, results["affordable"]))
    for number in range(rounds):
        say(f"round {number + 1} of {rounds}")
        for first in range(0, QUESTIONS, BLOCK):
            for servant, one in zip(servants, measured, strict=True):
                for search, results in one.searches.items():
                    block = min(BLOCK, results["affordable"] - first)
                    if block <= 0:
                        continue
                    answer = servant.ask("search", search, first, block)
                    if first == 0:
                        results["took"].append([])
                    results["took"][-1] += answer["took"]
                    results["found"] |= enumerate(answer["found"], first)


def afford(servant: Servant, search: str, most: int) -> int:
    """Return how many questions a system can be asked in the time that all are given."""
    (took,) = servant.ask("search", search, QUESTIONS + 1, 1)["took"]
    return max(FEWEST, min(most, int(SECONDS * 1000 / took)))


def measure_adds(servants: list[Servant], measured: list[Measured], size: int) -> None:
    """Add rows one by one, in turns."""
    say("adds")
    for block in range(0, ADDS, BLOCK):
        for servant, one in zip(servants, measured, strict=True):
            if one.figures["takes_single_rows"]:
                one.figures.setdefault("add", []).extend(servant.ask("add", size + block, BLOCK)["took"])


def measure_threads(servants: list[Servant], measured: list[Measured]) -> None:
    """Answer questions by one thread and by eight."""
    for servant, one in zip(servants, measured, strict=True):
        search = next(iter(one.searches))
        count = max(WORKERS, min(WORKER_QUESTIONS, one.searches[search]["affordable"]))
        for threads in (1, WORKERS):
            took = servant.ask("search_in_threads", search, threads, 0, count)["seconds"]
            one.figures[f"searches_per_second_{threads}_threads"] = count / took


@contextmanager
def started(start: Any, name: str) -> Iterator[Servant]:
    servant = start(name)
    try:
        yield servant
    finally:
        servant.end()


def measure_use(servant: Servant, measured: Measured) -> None:
    """Measure the memory of a process that opens the rows and answers, and the size of the files."""
    before = servant.ask("measure_use")["memory"]
    servant.ask("open")
    for search in servant.ask("list_searches")[:1]:
        servant.ask("search", search, 0, FEWEST)
    use = servant.ask("measure_use")
    measured.figures |= {"memory": use["memory"] - before, "files": use["files"]}


def measure_processes(start: Any, measured: Measured) -> None:
    """Answer questions by one process and by eight at a time."""
    search = next(iter(measured.searches))
    count = min(WORKER_QUESTIONS, measured.searches[search]["affordable"])
    for processes in (1, WORKERS):
        with ExitStack() as stack:
            servants = [stack.enter_context(started(start, measured.name)) for _ in range(processes)]
            for servant in servants:
                servant.ask("open")
                servant.ask("list_searches")
                servant.ask("settle", QUESTIONS, WARM_UP)
                servant.ask("search", search, QUESTIONS, 1)
            began = time.perf_counter()
            for servant in servants:
                servant.send("search", search, 0, count)
            for servant in servants:
                servant.read()
            took = time.perf_counter() - began
        measured.figures[f"searches_per_second_{processes}_processes"] = processes * count / took


def measure_starts(
    options: argparse.Namespace,
    systems: dict[str, dict[str, Any]],
    measured: list[Measured],
    data: Path,
    folders: dict[str, Path],
) -> None:
    """Time new processes in turns: the first search, and the import alone, without what Python itself takes."""
    say("starts")
    question = json.loads((data / "questions.json").read_text("utf-8"))[0]
    for _ in range(STARTS):
        for one in measured:
            python = make_environment(options.cache, systems[one.name])
            script = [str(PEERS / f"{systems[one.name]['module']}.py"), str(data), str(folders[one.name])]
            once = [*script, next(iter(one.searches)), question, str(data / "first-vector.npy")]
            commands = {"first_search": once, "import": ["-c", f"import {one.figures['imports']}"]}
            nothing = time_process(python, ["-c", "pass"])
            for name, command in commands.items():
                one.figures.setdefault(name, []).append(time_process(python, command) - nothing)


def quiet_environment() -> dict[str, str]:
    """Return the environment for systems that would send events, or write into the user's home, when imported."""
    scratch = tempfile.gettempdir()
    return {**os.environ, "MEM0_TELEMETRY": "False", "MEM0_DIR": scratch, "MCP_MEMORY_BASE_DIR": scratch}


def time_process(python: Path, arguments: Sequence[str]) -> float:
    began = time.perf_counter()
    subprocess.run([python, *arguments], check=True, stdout=subprocess.DEVNULL, env=quiet_environment())
    return (time.perf_counter() - began) * 1000


def summarise(measured: Measured, exact: ExactSearch) -> None:
    """Turn lists of times into medians with their spread over the rounds, and what was found into recall."""
    for search, results in measured.searches.items():
        for name, share in (("p50", 50), ("p99", 99)):
            by_round = [float(np.percentile(took, share)) for took in results["took"]]
            results[name] = {"median": statistics.median(by_round), "least": min(by_round), "most": max(by_round)}
        found = results.pop("found")
        results["questions"] = len(found)
        del results["took"], results["affordable"]
        results |= exact.judge(search, found)
    for name in ("add", "first_search", "import"):
        if times := measured.figures.pop(name, None):
            measured.figures[name] = statistics.median(times)


def format_results(size: int, results: Sequence[Measured]) -> str:
    """Return Markdown tables: searches, then everything else."""
    lines = [f"\n### {format_size(size)} rows\n"]
    lines += ["| search | system | p50 ms | p99 ms | found | full pages |", "|---|---|---|---|---|---|"]
    for search in dict.fromkeys(name for one in results for name in one.searches):
        answers = [(one, one.searches[search]) for one in results if search in one.searches]
        for one, answer in sorted(answers, key=lambda pair: float(pair[1]["p50"]["median"])):
            times = " | ".join(format_spread(answer[share]) for share in ("p50", "p99"))
            lines.append(f"| {search} | {label(one)} | {times} | {answer['judged']} | {answer['full_pages']:.0%} |")
    columns = {
        "rows_per_second": "bulk rows/s",
        "add": "one add, ms",
        "first_search": "first search of a process, ms",
        "import": "import, ms",
        "memory": "memory, MB",
        "files": "files, MB",
        "installed": "installed, MB",
        "searches_per_second_1_threads": "searches/s, 1 thread",
        f"searches_per_second_{WORKERS}_threads": f"{WORKERS} threads",
        "searches_per_second_1_processes": "searches/s, 1 process",
        f"searches_per_second_{WORKERS}_processes": f"{WORKERS} processes",
    }
    lines += ["", f"| system | {' | '.join(columns.values())} |", "|---" * (len(columns) + 1) + "|"]
    for one in results:
        cells = [format_number(one.figures[name]) if name in one.figures else "" for name in columns]
        lines.append(f"| {label(one)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def label(measured: Measured) -> str:
    effort = f", effort {measured.figures['effort']}" if measured.figures.get("effort") else ""
    durable = "" if measured.figures["durable"] else ", not durable"
    return f"{measured.name} {measured.figures['version']}{effort}{durable}"


def format_spread(times: dict[str, float]) -> str:
    return f"{format_number(times['median'])} ({format_number(times['least'])}-{format_number(times['most'])})"


def format_number(number: float) -> str:
    return f"{number:,.0f}" if number >= 100 else f"{number:.1f}" if number >= 10 else f"{number:.2f}"


def say(text: str) -> None:
    print(f"  {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
