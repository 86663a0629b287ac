"""
Export and import in figures: rows a second, and how much more memory a large file takes than a small one.

    python bench/transfer.py [LINES]        a million lines, unless told otherwise

Each import is a process of its own, without a model: what is measured is reading, checking and writing.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from fresh import _peak_mb

LINES = 1_000_000
SMALL = 50_000  # lines of the import whose memory the large one is compared with: they fill the page cache
WORDS = "deploy retry cache queue login token index branch release budget latency shard replica schema timeout".split()


def make(file: Path, lines: int) -> None:
    """An export with so many memories, each a sentence of its own."""
    stamp = "2026-03-01T12:00:00.000000Z"
    with file.open("w", encoding="utf-8") as out:
        out.write(
            json.dumps({"memorist": 1, "schema": "003-documents", "namespace": "default", "vectors": False}) + "\n"
        )
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


def measure(what: str, database: str, file: str) -> dict[str, float]:
    """In a process of its own: an import or an export, its time and the most memory it held."""
    import memorist

    started = time.perf_counter()
    with memorist.open(database, embedder="none") as memory:
        rows = memory.import_(file).added if what == "import" else memory.export(file)
    return {"rows": rows, "seconds": time.perf_counter() - started, "peak_mb": _peak_mb()}


def run(*arguments: object) -> dict[str, float]:
    done = subprocess.run([sys.executable, __file__, *map(str, arguments)], check=True, capture_output=True, text=True)
    answer: dict[str, float] = json.loads(done.stdout)
    return answer


def main(lines: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        peaks: dict[str, dict[int, float]] = {"import": {}, "export": {}}
        for size in (SMALL, lines):
            file, again = Path(folder, f"{size}.jsonl"), Path(folder, f"{size}-again.jsonl")
            make(file, size)
            for what, path in (("import", file), ("export", again)):
                done = run(what, Path(folder, f"{size}.db"), path)
                peaks[what][size] = done["peak_mb"]
                rate = done["rows"] / done["seconds"]
                print(
                    f"{what} of {size:>9,} lines: {rate:>8,.0f} rows/s, {done['seconds']:.1f} s, "
                    f"peak {done['peak_mb']:.0f} MB"
                )
        for what, by_size in peaks.items():
            print(f"{what}: {by_size[lines] - by_size[SMALL]:+.0f} MB from {SMALL:,} to {lines:,} lines")


if __name__ == "__main__":
    if len(sys.argv) == 4:
        print(json.dumps(measure(*sys.argv[1:])))
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else LINES)
