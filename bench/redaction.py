"""
Measure redaction: secrets that it misses, ordinary lines that it masks, and its speed.

    python bench/redaction.py                            recall by kind, on secrets generated from fixed seeds
    python bench/redaction.py --trees DIR ... --show 20  and the share of lines that are masked in folders of text
    python bench/redaction.py --trees DIR --baseline SRC and the speed, next to that of the code in another src folder

The folders are taken to hold no secrets, so each masked line counts as a false positive; `--show` prints some to judge.
If the package detect-secrets can be imported, it reads the same secrets and folders; any line that it reports in the
text of a secret counts as found. `--seed` makes secrets that the rules were not tried on before.
"""

import argparse
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from memorist.redact import redact
from secret_samples import SecretMaker, make_all_samples

SUFFIXES = frozenset(".c .cfg .css .go .h .html .ini .js .json .md .py .rs .sh .toml .ts .txt .yaml .yml".split())
SKIPPED_FOLDERS = frozenset("site-packages node_modules __pycache__ .git".split())
MAX_FILE_BYTES = 400_000
NAMES = ("pass", "secret", "token", "key", "auth", "credential")  # lines with one of these are the hard ones
TIMED_BYTES, ROUNDS = 2_000_000, 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trees", nargs="*", type=Path, default=[], help="folders of text without secrets")
    parser.add_argument("--show", type=int, default=0, help="print so many masked lines of each folder")
    parser.add_argument("--seed", default="", help="make other secrets than the tests do")
    parser.add_argument("--misses", type=int, default=0, help="print so many missed secrets of each kind")
    parser.add_argument("--baseline", type=Path, help="the src folder of another version, to compare the speed with")
    parser.add_argument("--time", action="store_true", help=argparse.SUPPRESS)  # one timing, for --baseline
    options = parser.parse_args()
    if options.time:
        print(time_redaction(options.trees))
        return
    SecretMaker.salt = options.seed
    print_recall(options.misses)
    for tree in options.trees:
        print_masked_lines(tree, options.show)
    if options.baseline:
        compare_speed(options.trees, options.baseline)


def print_recall(misses: int) -> None:
    """Print the share of secrets of which nothing is left, by kind."""
    other = load_detect_secrets()
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    file = Path(tempfile.mkdtemp()) / "notes.txt"
    for planted in make_all_samples():
        counts[planted.kind]["all"] += 1
        if is_left(planted.secret, redact(planted.text)[0]):
            counts[planted.kind]["missed"] += 1
            if counts[planted.kind]["missed"] <= misses:
                print(f"missed {planted.kind}: {planted.text[:200]!r}")
        if other:
            file.write_text(planted.text, "utf-8")
            counts[planted.kind]["other"] += other(file) > 0
    print(f"{'kind':24}{'secrets':>8}{'recall':>9}{'detect-secrets' if other else '':>16}")
    total = sum(counts.values(), Counter[str]())
    for kind, count in [*sorted(counts.items()), ("all", total)]:
        shown = f"{count['other'] / count['all']:>15.1%}" if other else ""
        print(f"{kind:24}{count['all']:>8}{1 - count['missed'] / count['all']:>9.1%}{shown}")


def is_left(secret: str, text: str) -> bool:
    """Return True if eight characters in a row can still be read."""
    text = re.sub(r"\[redacted:[a-z0-9-]+\]", "", text)
    return any(secret[at : at + 8] in text for at in range(max(1, len(secret) - 7)))


def load_detect_secrets() -> Callable[[Path], int] | None:
    """Return a function that counts the lines of a file that detect-secrets reports, with its default settings."""
    try:
        from detect_secrets import SecretsCollection  # type: ignore[import-not-found]
        from detect_secrets.settings import default_settings  # type: ignore[import-not-found]
    except ImportError:
        return None

    def count_lines(file: Path) -> int:
        with default_settings():
            secrets = SecretsCollection()
            secrets.scan_file(str(file))
            return len({secret.line_number for _, secret in secrets})

    return count_lines


def print_masked_lines(tree: Path, show: int) -> None:
    """Print the share of lines that are masked, of all and of those that name a secret."""
    other = load_detect_secrets()
    lines, named, masked, reported, kinds, shown = 0, 0, 0, 0, Counter[str](), list[str]()
    for file, text in read_texts(tree):
        before = text.splitlines()
        lines += len(before)
        named += sum(any(name in line.lower() for name in NAMES) for line in before)
        places = redact(text)[1]
        kinds.update(place.kind for place in places)
        numbers = sorted({place.line for place in places})
        masked += len(numbers)
        reported += other(file) if other else 0
        split = text.split("\n")
        shown += [f"  {file.relative_to(tree)}:{number}: {split[number - 1].strip()[:150]}" for number in numbers]
    print(f"\n{tree}: {lines:,} lines, {masked} masked = {masked / max(1, lines):.3%} of all, ", end="")
    print(f"{masked / max(1, named):.2%} of the {named:,} that name a secret; {dict(kinds.most_common(8))}")
    if other:
        print(f"detect-secrets reports {reported} of these lines = {reported / max(1, lines):.3%}")
    for line in random.Random(0).sample(shown, min(show, len(shown))):
        print(line)


def read_texts(tree: Path) -> Iterator[tuple[Path, str]]:
    for file in sorted(tree.rglob("*")) if tree.is_dir() else [tree]:
        if SKIPPED_FOLDERS.intersection(file.parts):
            continue
        if file.suffix in SUFFIXES and file.is_file() and file.stat().st_size <= MAX_FILE_BYTES:
            yield file, file.read_text("utf-8", errors="replace")


def compare_speed(trees: Iterable[Path], baseline: Path) -> None:
    """Print the shortest of several times of both versions, taken in turns."""
    own = Path(__file__).parents[1] / "src"
    times: dict[Path, list[float]] = {own: [], baseline: []}
    for _ in range(ROUNDS):
        for source, taken in times.items():
            command = [sys.executable, __file__, "--time", "--trees", *map(str, trees)]
            environment = {**os.environ, "PYTHONPATH": str(source.resolve())}
            taken.append(float(subprocess.run(command, env=environment, check=True, capture_output=True).stdout))
    ours, theirs = min(times[own]), min(times[baseline])
    print(f"\nspeed: {ours:.3f} s, baseline {theirs:.3f} s, ratio {ours / theirs:.2f}")


def time_redaction(trees: Iterable[Path]) -> float:
    """Return the processor time to redact the first texts of each folder."""
    texts = list[str]()
    for tree in trees:
        size = 0
        for _, text in read_texts(tree):
            if (size := size + len(text)) > TIMED_BYTES:
                break
            texts.append(text)
    redact("password: x")  # compiles the patterns
    start = time.process_time()
    for text in texts:
        redact(text)
    return time.process_time() - start


if __name__ == "__main__":
    main()
