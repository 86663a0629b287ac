"""
Measure whether `relevant` can be believed on documents: questions that pages answer, and questions that none does.

    python bench/relevance.py --folder DIR/kubernetes-website [--cache DIR] [--json]

Two folders of the Kubernetes documentation are indexed, which takes minutes, unless the cache has them. The questions
stand in questions/kubernetes.jsonl, each with the pages that answer it; of those without, `near` ones are about
Kubernetes and its neighbours. For conversations and notes use
`memorist eval DATASET --relevance`.
"""

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import memorist
from memorist import Memorist
from memorist.evaluate.dataset import Question
from memorist.evaluate.evaluation import QuestionResult, measure_calibration

QUESTIONS = Path(__file__).parent / "questions" / "kubernetes.jsonl"
DOCS, FOLDERS = "content/en/docs", ("concepts", "tasks")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="the Kubernetes website")
    parser.add_argument("--cache", type=Path, help="keeps the database between runs")
    parser.add_argument("--json", action="store_true", help="print JSON, with every question")
    options = parser.parse_args()
    docs = (options.folder / DOCS).resolve()
    with tempfile.TemporaryDirectory() as scratch:
        database = (options.cache or Path(scratch)) / "kubernetes.db"
        database.parent.mkdir(parents=True, exist_ok=True)
        with memorist.open(database) as memory:
            for name in FOLDERS:
                memory.documents.index(docs / name)
            answers = [ask(memory, docs, json.loads(line)) for line in QUESTIONS.read_text("utf-8").splitlines()]
    answerable = [answer for answer in answers if answer.question.judgements]
    calibration = measure_calibration(answerable, [answer for answer in answers if not answer.question.judgements])
    if options.json:
        questions = [
            {"question": answer.question.text, "relevance": answer.relevance, "first": answer.found[:1]}
            for answer in answers
        ]
        print(json.dumps({"questions": questions, "auc": calibration.auc}, indent=2))
        return
    print(f"the right page first: {sum(is_first(answer) for answer in answerable)} of {len(answerable)}")
    for name, part in {"all": calibration, **calibration.categories}.items():
        print(f"{name}: {part.without_answer} without an answer, AUC {part.auc:.3f}, {part.false_answers:.1%} answered")
    print(
        f"with one, called unanswered: {calibration.missed:.1%}, the right page first: {calibration.missed_first:.1%}"
    )


def ask(memory: Memorist, docs: Path, line: dict[str, Any]) -> QuestionResult:
    """Ask a question; the pages found are named by their path below the documentation."""
    results = memory.documents.search(line["question"], limit=10)
    found = tuple(Path(hit.path).resolve().relative_to(docs).as_posix() for hit in results)
    question = Question(line["question"], line["question"], dict.fromkeys(line["pages"], 1), line.get("category"))
    return QuestionResult(question, found, {}, None, max((hit.relevance for hit in results), default=0.0))


def is_first(answer: QuestionResult) -> bool:
    return bool(answer.found) and answer.found[0] in answer.question.judgements


if __name__ == "__main__":
    main()
