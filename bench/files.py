"""
Measure the indexing of a folder of documents: its time, the model's share, and whether the right pages are found.

    python bench/files.py --folder DIR/kubernetes-website                               some minutes

It indexes the folder's Markdown files in a process that it kills half-way, resumes, runs again with nothing changed,
edits one file, and asks ten questions that a reader of those pages would ask. The questions and the pages that answer
them were written down before they were first asked. Pages that were judged afterwards are counted separately.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import memorist
from memorist.embed.local import LocalEmbedder

QUESTIONS = {
    "how do I roll a deployment back to an earlier revision": ("workloads/controllers/deployment.md", "rollout_undo"),
    "run a copy of a pod on every node": ("workloads/controllers/daemonset.md",),
    "run a job every night at two": ("controllers/cron-jobs.md", "automated-tasks-with-cron-jobs.md"),
    "delete finished jobs automatically after a while": ("ttlafterfinished.md", "controllers/job.md"),
    "limit how much memory a container may use": ("assign-memory-resource.md", "manage-resources-containers.md"),
    "give a pod a password without putting it into the image": ("secret.md", "distribute-credentials-secure.md"),
    "take a node out of service without interrupting my application": ("safely-drain-node.md", "disruptions.md"),
    "restart a container when it no longer answers": ("liveness", "probe"),
    "spread the pods of an application over several zones": ("topology-spread-constraints.md", "multiple-zones.md"),
    "only let certain pods talk to my database pod": ("network-policies.md", "declare-network-policy.md"),
}
# Pages that were found and turned out to answer: the first has a section on restarting a container that hangs, the
# second is about which pods may talk to each other, with the manifest.
JUDGED_AFTERWARDS = {
    "restart a container when it no longer answers": ("workloads/pods/pod-lifecycle.md",),
    "only let certain pods talk to my database pod": ("enforcing-network-policies-in-kubernetes.md",),
}
MAX_RANK = 3  # at which a page counts as found


class TimedEmbedder:
    """A local model that measures its own time and counts the texts it embeds."""

    def __init__(self, model: LocalEmbedder) -> None:
        self.model = model
        self.model_id, self.dimensions, self.max_tokens = model.model_id, model.dimensions, model.max_tokens
        self.count_tokens, self.embed_query = self.model.count_tokens, self.model.embed_query
        self.seconds, self.texts = 0.0, 0
        self.model.load()

    def embed(self, texts: Sequence[str]) -> Any:
        started = time.perf_counter()
        try:
            return self.model.embed(texts)
        finally:
            self.seconds += time.perf_counter() - started
            self.texts += len(texts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="Markdown files, such as the Kubernetes website")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(shutil.copytree(options.folder, Path(scratch, "files")))  # a copy, because a file is edited
        results = measure(folder, Path(scratch, "files.db"))
    if options.json:
        print(json.dumps(results, indent=2))
        return
    for name, value in results.items():
        print(f"{name:<64} {value}")


def measure(folder: Path, database: Path) -> dict[str, Any]:
    """Run all steps and return their results by name."""
    done = index_and_kill(folder, database)
    results: dict[str, Any] = {"files finished when the first run was killed": done}
    model = TimedEmbedder(LocalEmbedder())
    with memorist.open(database, embedder=model) as memory:
        started = time.perf_counter()
        resumed = memory.documents.index(folder)
        took = time.perf_counter() - started
        results["files added by the second run, unchanged ones"] = f"{resumed.added}, {resumed.unchanged}"
        results["chunks of the second run, its seconds"] = f"{resumed.chunks}, {took:.1f}"
        results["all but the model, as a share of it (target: 20 % at most)"] = f"{1 - model.seconds / took:.1%}"
        # The time of a first run is extrapolated from the second by the number of files.
        full_run = took * (resumed.added + done) / resumed.added
        started = time.perf_counter()
        unchanged = memory.documents.index(folder)
        took = time.perf_counter() - started
        if unchanged.unchanged != resumed.added + done:
            raise SystemExit("Error: files were indexed again although nothing had changed")
        results["nothing changed, as a share of a first run (target: 2 % at most)"] = (
            f"{took / full_run:.2%} ({took:.2f} s)"
        )
        results["one paragraph edited: chunks embedded, of the file's"] = edit_and_index(memory, folder, model)
        results |= ask_questions(memory, folder)
    return results


def index_and_kill(folder: Path, database: Path) -> int:
    """Index in another process, kill it when a third of the files are done, and return how many were."""
    program = "import sys, memorist; memorist.open(sys.argv[1]).index(sys.argv[2])"
    process = subprocess.Popen([sys.executable, "-c", program, str(database), str(folder)], env=os.environ)
    enough = sum(1 for _ in folder.rglob("*.md")) // 3
    try:
        while process.poll() is None:
            time.sleep(1)
            if database.exists() and (done := count_documents(database)) >= enough:
                process.send_signal(signal.SIGKILL)
                process.wait()
                return max(done, count_documents(database))
    finally:
        process.kill()
    raise SystemExit("Error: the first run ended before it could be killed")


def count_documents(database: Path) -> int:
    with memorist.open(database, embedder="none") as memory:
        return memory.stats().documents


def edit_and_index(memory: memorist.Memorist, folder: Path, model: TimedEmbedder) -> str:
    """Add a paragraph to the longest page and index again."""
    file = max(folder.rglob("concepts/**/*.md"), key=lambda path: path.stat().st_size)
    text = file.read_text("utf-8")
    at = text.index("\n\n", len(text) // 2)
    file.write_text(f"{text[:at]}\n\nThis sentence was not here before.{text[at:]}", "utf-8")
    before = model.texts
    report = memory.documents.index(folder)
    if report.changed != 1:
        raise SystemExit("Error: the changed file was not noticed")
    return f"{model.texts - before} of {report.chunks}"


def ask_questions(memory: memorist.Memorist, folder: Path) -> dict[str, Any]:
    """Return the rank of the first page that answers each question."""
    expected, ranks = 0, dict[str, int | None]()
    for question, pages in QUESTIONS.items():
        hits = [Path(hit.path).relative_to(folder).as_posix() for hit in memory.documents.search(question)]
        expected += _is_found(_find_rank(hits, pages))
        ranks[question] = _find_rank(hits, (*pages, *JUDGED_AFTERWARDS.get(question, ())))
    return {
        f"questions answered in the first {MAX_RANK} (of {len(ranks)})": sum(map(_is_found, ranks.values())),
        "  by a page that was written down beforehand": expected,
    } | {f"  {question}": rank or "not found" for question, rank in ranks.items()}


def _find_rank(hits: Sequence[str], pages: Sequence[str]) -> int | None:
    return next((rank for rank, path in enumerate(hits, 1) if any(page in path for page in pages)), None)


def _is_found(rank: int | None) -> bool:
    return rank is not None and rank <= MAX_RANK


if __name__ == "__main__":
    main()
