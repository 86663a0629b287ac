"""
Fit `relevance` to the bundled model: a logistic regression that tells texts that answer a question from others.

    python training/fit_relevance.py --data groups.jsonl.gz --sets DATA

Questions are asked where a text answers them, and again where none does. The features of what they find are those that
Memorist itself computes. The last line is the model for RELEVANCE_MODELS in src/memorist/search/signals.py. Nothing is
fitted on what docs/quality.md judges by.
"""

import argparse
import random
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pairs import KINDS, SETS, Pairs, as_keywords, read_pairs

import memorist
from memorist.embed.local import LocalEmbedder
from memorist.evaluate.dataset import CorpusDocument, Dataset, Question, load_dataset
from memorist.evaluate.evaluation import QuestionResult, measure_calibration
from memorist.evaluate.indexing import index_dataset
from memorist.evaluate.metrics import relevant_ids
from memorist.profiles import BUNDLED
from memorist.records import Results
from memorist.search.signals import RELEVANCE_MODELS, Features, RelevanceModel

NOTES = Path(__file__).parent / "relevance" / "notes"
TALK, PASSAGES, DOCUMENTS, LONG = "talk", "passages", "documents", "long notes"
LONG_SETS = ("selqa", "spc_persona", "friendsqa", "squad_train_part", "canard")
LONG_NOTES, SENTENCES = 40, (20, 40, 80)  # for each set, and of each note
QUESTIONS_PER_SET, PAGES_PER_SET, DOCUMENT_SETS = 60, 30, 8
KEYWORDS_OF = 4  # every fourth question is asked as keywords, too
HITS = 10
# Where a question is answered, much else is near it, too: a regression would count it against a hit that it stands out.
# But it is what makes kinds of text comparable: of 0 to 14, this misses the fewest answers over all of them.
STANDOUT = 7.0
FALSE_ANSWERS = 0.085  # of the questions about talk that nothing answers, for which talk offers most that is similar
RIDGE, ROUNDS = 1e-3, 20

Numbers = NDArray[np.float64]
Row = tuple[float, ...]  # the features of one hit
Found = Row | float  # a hit that was found by words alone has its relevance


@dataclass(slots=True)
class FittingSet:
    """Texts in scopes, questions about them (their category is the kind of text), and where nothing answers them."""

    documents: list[CorpusDocument] = field(default_factory=list)
    questions: list[Question] = field(default_factory=list)
    elsewhere: dict[str, list[str]] = field(default_factory=dict)  # scopes in which to ask the questions of a scope


@dataclass(frozen=True, slots=True)
class Page:
    """The hits of a question, which has no judgements where nothing answers it."""

    question: Question
    ids: tuple[str, ...]
    hits: tuple[Found, ...]

    @property
    def candidates(self) -> list[Row]:
        """The hits that may have been told: those that answer, or all where nothing does."""
        wanted = relevant_ids(self.question.judgements)
        hits = zip(self.ids, self.hits, strict=True)
        return [hit for id, hit in hits if isinstance(hit, tuple) and (id in wanted or not wanted)]


class Recorder:
    """Stands in for a model of relevance: it keeps the features of each hit, whose relevance is their number."""

    def __init__(self) -> None:
        self._rows: list[Row] = []

    def estimate(self, features: Features) -> Numbers:
        rows = np.stack(features, axis=1).tolist()
        self._rows += map(tuple, rows)
        return len(self._rows) - len(rows) + np.arange(1.0, len(rows) + 1)

    def read(self, results: Results) -> tuple[Found, ...]:
        return tuple(self._rows[int(hit.relevance) - 1] if hit.relevance >= 1 else hit.relevance for hit in results)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the pairs that the model was trained on")
    parser.add_argument("--sets", type=Path, required=True, help="the folder of the evaluation sets")
    arguments = parser.parse_args()
    _, held_out = read_pairs(arguments.data, [arguments.sets / name for name in SETS])
    chosen = random.Random(0)
    fitting = FittingSet()
    add_talk(fitting, arguments.sets / "locomo")
    add_notes(fitting)
    add_passages(fitting, held_out, chosen)
    add_long_notes(fitting, held_out, chosen)

    present, recorder = RELEVANCE_MODELS[BUNDLED], Recorder()
    RELEVANCE_MODELS[BUNDLED] = recorder  # type: ignore[assignment]
    with closing(LocalEmbedder()) as embedder:
        pages = [*ask_memories(fitting, embedder, recorder), *ask_documents(held_out, chosen, embedder, recorder)]
    fitted = fit(pages)
    print_figures("now", present, pages)
    print_figures("fitted", fitted, pages)
    print(f"RelevanceModel({fitted.bias:.2f}, ({', '.join(f'{weight:.2f}' for weight in fitted.weights)}))")


def add_talk(fitting: FittingSet, folder: Path) -> None:
    """Add every second conversation; its questions are also asked of the next one between other people."""
    dataset = load_dataset(folder)
    scopes = [scope for scope in dict.fromkeys(question.scope for question in dataset.questions) if scope][::2]
    fitting.documents += [document for document in dataset.documents if document.scope in scopes]
    fitting.questions += [replace(each, category=TALK) for each in dataset.questions if each.scope in scopes][::2]
    speakers = {
        scope: {document.metadata["speaker"] for document in dataset.documents if document.scope == scope}
        for scope in scopes
    }
    for place, scope in enumerate(scopes):
        others = [*scopes[place + 1 :], *scopes[:place]]
        fitting.elsewhere[scope] = [other for other in others if not speakers[scope] & speakers[other]][:1]


def add_notes(fitting: FittingSet) -> None:
    """Add the notes. Their questions are asked of all conversations, for of those without an answer most are near."""
    dataset, conversations = load_dataset(NOTES), list(fitting.elsewhere)
    name = dataset.name
    fitting.documents += [replace(document, scope=name) for document in dataset.documents]
    questions = [*dataset.questions, *dataset.unanswered]
    fitting.questions += [replace(question, scope=name, category=name) for question in questions]
    fitting.elsewhere[name] = conversations


def add_passages(fitting: FittingSet, held_out: Pairs, chosen: random.Random) -> None:
    """Add passages that were held out, a scope for each set; questions are also asked of the next set."""
    set_of = {pair.group: pair.set for pair in held_out.pairs}
    sets = sorted({name for name in set_of.values() if name.startswith(KINDS["held-out passages"])})
    for place, name in enumerate(sets):
        fitting.documents += [
            CorpusDocument(f"{PASSAGES} {number}", text, None, name, {})
            for number, text in enumerate(held_out.texts)
            if set_of.get(held_out.groups[number]) == name
        ]
        pairs = [pair for pair in held_out.pairs if pair.set == name]
        for pair in chosen.sample(pairs, min(QUESTIONS_PER_SET, len(pairs))):
            answers = {f"{PASSAGES} {number}": 1 for number in pair.answers}
            fitting.questions.append(Question("", pair.question, answers, PASSAGES, name))
        fitting.elsewhere[name] = [sets[(place + 1) % len(sets)]]


def add_long_notes(fitting: FittingSet, held_out: Pairs, chosen: random.Random) -> None:
    """Add notes in which an answer stands among texts of other groups; questions are also asked of the next set."""
    set_of = {pair.group: pair.set for pair in held_out.pairs}
    for place, name in enumerate(LONG_SETS):
        scope = f"{LONG} {name}"
        texts = [number for number, group in enumerate(held_out.groups) if set_of.get(group) == name]
        pairs = list({pair.answers[0]: pair for pair in held_out.pairs if pair.set == name}.values())
        for pair in chosen.sample(pairs, min(LONG_NOTES, len(pairs))):
            others = [held_out.texts[number] for number in texts if held_out.groups[number] != pair.group]
            note, least = [held_out.texts[pair.answers[0]]], chosen.choice(SENTENCES)
            while sum(1 + text.count(". ") for text in note) < least:
                note.insert(chosen.randrange(len(note) + 1), chosen.choice(others))
            id = f"{LONG} {len(fitting.documents)}"
            fitting.documents.append(CorpusDocument(id, " ".join(note), None, scope, {}))
            fitting.questions.append(Question("", pair.question, {id: 1}, LONG, scope))
        fitting.elsewhere[scope] = [f"{LONG} {LONG_SETS[(place + 1) % len(LONG_SETS)]}"]


def ask_memories(fitting: FittingSet, embedder: LocalEmbedder, recorder: Recorder) -> Iterator[Page]:
    """Ask every question in its scope, and elsewhere where it has an answer."""
    dataset = Dataset("fitting", tuple(fitting.documents), ())
    with tempfile.TemporaryDirectory() as cache:
        indexed = index_dataset(dataset, embedder, Path(cache))
        with closing(indexed.memory) as memory:
            for question in with_keywords(fitting.questions):
                elsewhere = fitting.elsewhere[question.scope or ""] if question.judgements else ()
                unanswered = [replace(question, scope=scope, judgements={}) for scope in elsewhere]
                for asked in (question, *unanswered):
                    results = memory.search(asked.text, project=asked.scope, limit=HITS, record="off")
                    ids = [indexed.document_ids([hit.memory.id]) for hit in results]
                    yield make_page(asked, ids, results, recorder)


def ask_documents(
    held_out: Pairs, chosen: random.Random, embedder: LocalEmbedder, recorder: Recorder
) -> Iterator[Page]:
    """Ask questions of indexed files: of those of their own documentation, then of those of another one."""
    pages: dict[str, list[int]] = {}
    for pair in held_out.pairs:
        if pair.set.startswith(KINDS["held-out docs"]) and pair.group not in pages.setdefault(pair.set, []):
            pages[pair.set].append(pair.group)
    sets = [
        name for name, _ in Counter({name: len(groups) for name, groups in pages.items()}).most_common(DOCUMENT_SETS)
    ]
    with tempfile.TemporaryDirectory() as scratch, memorist.open(":memory:", embedder=embedder) as memory:
        for name in sets:
            folder = Path(scratch) / name
            folder.mkdir()
            for group in pages[name][:PAGES_PER_SET]:
                texts = (text for text, owner in zip(held_out.texts, held_out.groups, strict=True) if owner == group)
                (folder / f"{group}.md").write_text("\n\n".join(texts), "utf-8")
            memory.documents.index(folder, project=name)
        for place, name in enumerate(sets):
            pairs = [pair for pair in held_out.pairs if pair.group in pages[name][:PAGES_PER_SET]]
            questions = [
                Question("", pair.question, {str(pair.group): 1}, DOCUMENTS, name)
                for pair in chosen.sample(pairs, min(QUESTIONS_PER_SET, len(pairs)))
            ]
            for question in with_keywords(questions):
                unanswered = replace(question, scope=sets[(place + 1) % len(sets)], judgements={})
                for asked in (question, unanswered):
                    results = memory.documents.search(asked.text, project=asked.scope, limit=HITS)
                    yield make_page(asked, [[Path(hit.path).stem] for hit in results], results, recorder)


def with_keywords(questions: Sequence[Question]) -> Iterator[Question]:
    for number, question in enumerate(questions):
        yield question
        if number % KEYWORDS_OF == 0 and (keywords := as_keywords(question.text)) != question.text:
            yield replace(question, text=keywords)


def make_page(question: Question, ids: Sequence[Sequence[str]], results: Results, recorder: Recorder) -> Page:
    """A memory may be several documents: it has the id of one that answers, if there is one."""
    wanted = relevant_ids(question.judgements)
    told = (next((id for id in same if id in wanted), same[0]) for same in ids)
    return Page(question, tuple(told), recorder.read(results))


def fit(pages: Sequence[Page]) -> RelevanceModel:
    """
    Fit the weights, with the same weight for every kind of text, then choose the bias by the errors in talk.

    A page counts as answered if its best hit does, so that hit alone is fitted. Which it is depends on the weights:
    hits and weights are found in turns.
    """
    pages = [page for page in pages if page.candidates]
    candidates = [np.array([(1.0, *hit) for hit in page.candidates]) for page in pages]
    groups = [(page.question.category, bool(relevant_ids(page.question.judgements))) for page in pages]
    sizes = Counter(groups)
    weight = np.array([1.0 / sizes[group] for group in groups])
    answered = np.array([is_answered for _, is_answered in groups])
    held = 1 + Features._fields.index("standout")
    coefficients = np.zeros(1 + len(Features._fields))
    coefficients[held] = STANDOUT
    for _ in range(ROUNDS):
        best = np.array([hits[(hits @ coefficients).argmax()] for hits in candidates])
        free = np.delete(best, held, axis=1)
        fitted = regress(free, answered, weight, STANDOUT * best[:, held])
        coefficients = np.insert(fitted, held, STANDOUT)
    unanswered = [group == (TALK, False) for group in groups]
    bias, *weights = coefficients.tolist()
    too_much = np.quantile(best[unanswered] @ coefficients, 1 - FALSE_ANSWERS)
    return RelevanceModel(bias - float(too_much), tuple(weights))


def regress(values: Numbers, target: NDArray[np.bool_], weight: Numbers, offset: Numbers) -> Numbers:
    """Return the coefficients of a logistic regression, the first of which is the bias, by Newton's method."""
    coefficients = np.zeros(values.shape[1])
    ridge = RIDGE * np.diag([0.0, *np.ones(values.shape[1] - 1)])
    for _ in range(ROUNDS):
        estimate = 1 / (1 + np.exp(-values @ coefficients - offset))
        gradient = values.T @ (weight * (estimate - target)) + ridge @ coefficients
        curvature = (values.T * (weight * estimate * (1 - estimate))) @ values + ridge
        coefficients -= np.linalg.solve(curvature, gradient)
    return coefficients


def estimate(model: RelevanceModel, row: Row) -> float:
    return float(model.estimate(Features(*map(np.asarray, row))))


def print_figures(name: str, model: RelevanceModel, pages: Sequence[Page]) -> None:
    """Print for each kind how well questions are told apart, and the errors at the default threshold."""
    for kind in dict.fromkeys(page.question.category for page in pages):
        results: dict[bool, list[QuestionResult]] = {True: [], False: []}
        for page in pages:
            if page.question.category == kind:
                relevance = [estimate(model, hit) if isinstance(hit, tuple) else hit for hit in page.hits]
                result = QuestionResult(page.question, page.ids, {}, None, max(relevance, default=0.0))
                results[bool(relevant_ids(page.question.judgements))].append(result)
        figures = measure_calibration(results[True], results[False])
        print(
            f"{name}, {kind}: {len(results[True])} questions with an answer, {figures.without_answer} without: "
            f"AUC {figures.auc:.3f}; without one, called answered: {figures.false_answers:.1%}; "
            f"found first, called unanswered: {figures.missed_first:.1%}"
        )


if __name__ == "__main__":
    main()
