"""
Measure export and import: rows per second, and the additional memory that a large file takes.

    python bench/transfer.py [LINES]        a million lines by default

Each import is a process of its own and runs without a model: reading, checking and writing are measured.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from new_process import peak_mb

DEFAULT_LINES = 1_000_000
SMALL_LINES = 50_000  # of the file that the large one is compared with: enough to fill the page cache
WORDS = "deploy retry cache queue login token index branch release budget latency shard replica schema timeout".split()


def write_export(file: Path, lines: int) -> None:
    """Write an export with that many memories, each with a text of its own."""
    stamp = "2026-03-01T12:00:00.000000Z"
    with file.open("w", encoding="utf-8") as out:
        out.write(json.dumps({"memorist": 1, "schema": "001-schema", "namespace": "default", "vectors": False}) + "\n")
        for number in range(lines):
            words = " ".join(WORDS[(number >> shift) % len(WORDS)] for shift in range(0, 20, 2))
            record: dict[str, Any] = {
                "type": "memory", "id": f"memory-{number:08}", "project": f"project {number % 50}",
                "content": f"Note {number}: {words}", "tags": [WORDS[number % len(WORDS)]], "sector": "semantic",
                "tier": "project", "salience": 0.5, "metadata": {}, "created_at": stamp, "updated_at": stamp,
                "reinforced_at": stamp, "recorded_at": stamp, "pinned": False, "access_count": 0,
            }  # fmt: skip
            out.write(json.dumps(record) + "\n")
        out.write(json.dumps({"type": "end", "records": lines}) + "\n")


def measure_transfer(command: str, database: str, file: str) -> dict[str, float]:
    """Run an import or export in this process; return its time and peak memory."""
    import memorist

    started = time.perf_counter()
    with memorist.open(database, embedder="none") as memory:
        rows = memory.transfer.import_(file).added if command == "import" else memory.transfer.export(file)
    return {"rows": rows, "seconds": time.perf_counter() - started, "peak_mb": peak_mb()}


def run_in_process(*arguments: object) -> dict[str, float]:
    """Run an import or export in a new process."""
    command = [sys.executable, __file__, "--inside", *map(str, arguments)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    result: dict[str, float] = json.loads(done.stdout)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lines", nargs="?", type=int, default=DEFAULT_LINES, metavar="LINES")
    parser.add_argument("--inside", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        print(json.dumps(measure_transfer(*options.inside)))
        return
    with tempfile.TemporaryDirectory() as folder:
        peaks: dict[str, dict[int, float]] = {"import": {}, "export": {}}
        for size in (SMALL_LINES, options.lines):
            file, copy = Path(folder, f"{size}.jsonl"), Path(folder, f"{size}-copy.jsonl")
            write_export(file, size)
            for command, path in (("import", file), ("export", copy)):
                result = run_in_process(command, Path(folder, f"{size}.db"), path)
                peaks[command][size] = result["peak_mb"]
                rate = result["rows"] / result["seconds"]
                print(
                    f"{command} of {size:>9,} lines: {rate:>8,.0f} rows/s, {result['seconds']:.1f} s, "
                    f"peak {result['peak_mb']:.0f} MB"
                )
        for command, by_size in peaks.items():
            more = by_size[options.lines] - by_size[SMALL_LINES]
            print(f"{command}: {more:+.0f} MB from {SMALL_LINES:,} to {options.lines:,} lines")


if __name__ == "__main__":
    main()
