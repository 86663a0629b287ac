"""
Indexing a real tree of documents: how long, what of it is the model, and whether the right page is found.

    python bench/files.py --folder DIR/kubernetes-website                               some minutes
    python bench/files.py --folder DIR/kubernetes-website --embedder local:bge-small    twice as long

It indexes the folder's markdown in a process that it kills half-way, goes on from there, runs again with nothing
changed, edits one file, and asks ten questions that a reader of those pages would ask. The questions and the pages that
answer them were written down before they were first asked; what was read afterwards is counted apart.
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
from memorist.embed import create_embedder
from memorist.embed.local import Encoder

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
# Pages nobody had thought of that were found, read, and answer: the first has a section on what restarts a container
# that hangs, the second is about which pods may talk to each other, with the manifest.
READ_AFTERWARDS = {
    "restart a container when it no longer answers": ("workloads/pods/pod-lifecycle.md",),
    "only let certain pods talk to my database pod": ("enforcing-network-policies-in-kubernetes.md",),
}
FIRST = 3


class Timed:
    """A model on this machine, and how long it was at work."""

    def __init__(self, model: Encoder) -> None:
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
    parser.add_argument("--folder", type=Path, required=True, help="markdown files, such as the Kubernetes website")
    parser.add_argument("--embedder", choices=("local", "local:bge-small"), default="local")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        # A copy, because one of its files is edited.
        folder = Path(shutil.copytree(options.folder, Path(scratch, "files")))
        found = measure(folder, Path(scratch, "files.db"), options.embedder)
    if options.json:
        print(json.dumps(found, indent=2))
        return
    for what, value in found.items():
        print(f"{what:<64} {value}")


def measure(folder: Path, database: Path, embedder: str) -> dict[str, Any]:
    done = killed_half_way(folder, database, embedder)
    figures: dict[str, Any] = {"files finished when the first run was killed": done}
    model = Timed(create_embedder(embedder))
    with memorist.open(database, embedder=model) as memory:
        started = time.perf_counter()
        rest = memory.index(folder)
        took = time.perf_counter() - started
        figures["files taken in by the run after it, unchanged ones"] = f"{rest.added}, {rest.unchanged}"
        figures["chunks, seconds of it"] = f"{rest.chunks}, {took:.1f}"
        # The share is that of the second run; the whole of both would have taken as much longer as it had files more.
        whole = took * (rest.added + done) / rest.added
        figures["everything but the model, as a share of it (target: 20 % at most)"] = f"{1 - model.seconds / took:.1%}"
        started = time.perf_counter()
        again = memory.index(folder)
        took = time.perf_counter() - started
        if again.unchanged != rest.added + done:
            raise SystemExit("Error: files were redone although nothing had changed")
        figures["nothing changed, as a share of a first run (target: 2 % at most)"] = (
            f"{took / whole:.2%} ({took:.2f} s)"
        )
        figures["one paragraph edited: chunks embedded, of the file's"] = edited(memory, folder, model)
        figures |= asked(memory, folder)
    return figures


def killed_half_way(folder: Path, database: Path, embedder: str) -> int:
    """Index in another process until a third of the files are in, and kill it; gives how many were finished."""
    program = "import sys, memorist; memorist.open(sys.argv[1], embedder=sys.argv[3]).index(sys.argv[2])"
    process = subprocess.Popen([sys.executable, "-c", program, str(database), str(folder), embedder], env=os.environ)
    wanted = sum(1 for _ in folder.rglob("*.md")) // 3
    try:
        while process.poll() is None:
            time.sleep(1)
            if database.exists() and (done := count(database)) >= wanted:
                process.send_signal(signal.SIGKILL)
                process.wait()
                return max(done, count(database))
    finally:
        process.kill()
    raise SystemExit("Error: the first run ended before it could be killed")


def count(database: Path) -> int:
    with memorist.open(database, embedder="none") as memory:
        return memory.stats().documents


def edited(memory: memorist.Memorist, folder: Path, model: Timed) -> str:
    """Change one paragraph of a long page."""
    file = max(folder.rglob("concepts/**/*.md"), key=lambda each: each.stat().st_size)
    text = file.read_text("utf-8")
    at = text.index("\n\n", len(text) // 2)
    file.write_text(f"{text[:at]}\n\nThis sentence was not here before.{text[at:]}", "utf-8")
    before = model.texts
    report = memory.index(folder)
    if report.changed != 1:
        raise SystemExit("Error: the changed file was not noticed")
    return f"{model.texts - before} of {report.chunks}"


def asked(memory: memorist.Memorist, folder: Path) -> dict[str, Any]:
    """At which place each question finds a page that answers it: one of those written down, or read afterwards."""
    expected, places = 0, {}
    for question, pages in QUESTIONS.items():
        hits = [Path(hit.path).relative_to(folder).as_posix() for hit in memory.search_documents(question)]
        expected += _place(hits, pages) <= FIRST
        places[question] = _place(hits, (*pages, *READ_AFTERWARDS.get(question, ())))
    found = sum(place <= FIRST for place in places.values())
    return {
        f"questions answered in the first {FIRST} (of {len(places)})": found,
        "  by a page that was written down beforehand": expected,
    } | {f"  {question}": place if place <= len(hits) else "not found" for question, place in places.items()}


def _place(hits: Sequence[str], pages: Sequence[str]) -> int:
    return next((at for at, path in enumerate(hits, 1) if any(page in path for page in pages)), len(hits) + 1)


if __name__ == "__main__":
    main()
