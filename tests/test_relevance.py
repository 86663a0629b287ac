"""Whether a question is answered: what `relevant` says where an agent would act on it."""

import pytest

import memorist
from memorist import Memorist

NOTES = (
    "We deploy with `make ship` from the release branch",
    "My name is Anna and I live in Lisbon",
    "The invoice of the caterer was sent back because the address was wrong",
    "In the back office the heating does not turn on before seven",
    "Turn left after the bakery, the entrance is at the back of the yard",
    "Retries are capped at 5 with exponential backoff, since the billing provider bans noisy clients",
    "Marta prefers short answers without greetings",
    "The staging database is wiped every Sunday night",
)


@pytest.fixture
def notes(understanding: Memorist) -> Memorist:
    understanding.add_many(NOTES)
    return understanding


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("how do we ship code?", "We deploy"),
        ("releasing software to production", "We deploy"),
        ("where does Anna live?", "My name is Anna"),
        ("why is the number of retries limited?", "Retries"),
        ("when does staging lose its data?", "The staging"),
        ("caterer", "The invoice"),
    ],
)
def test_a_question_that_a_memory_answers_is_called_answered(notes: Memorist, question: str, answer: str) -> None:
    results = notes.search(question)

    assert results[0].memory.content.startswith(answer)
    assert results.relevant


@pytest.mark.parametrize(
    "question",
    [
        "how do I back up?",
        "how do I turn it off?",
        "what is the capital of Mongolia?",
        "recipe for sourdough bread",
        "who won the chess olympiad?",
    ],
)
def test_a_question_that_no_memory_answers_is_called_unanswered(notes: Memorist, question: str) -> None:
    assert not notes.search(question).relevant


def test_a_name_or_number_that_a_memory_has_is_relevant_by_itself(notes: Memorist) -> None:
    notes.add("The incident INC-4711 was caused by a full disk")

    for query in ("INC-4711", "incident INC-4711"):
        results = notes.search(query)
        assert results[0].memory.content.startswith("The incident")
        assert results.relevant


@pytest.mark.parametrize(
    "question",
    ["what do you know about me?", "Who am I?", "Summarise what you remember about me", "tell me about myself"],
)
def test_a_question_about_the_user_as_such_brings_personal_memories_into_the_context(
    notes: Memorist, question: str
) -> None:
    context = notes.context(question)

    assert "My name is Anna and I live in Lisbon" in context
    assert "Retries" not in context


def test_all_that_is_known_of_something_is_a_search_for_it(notes: Memorist) -> None:
    assert "The staging database is wiped" in notes.context("summarise what we know of the staging database")


def test_without_a_model_words_alone_decide() -> None:
    with memorist.open(":memory:", embedder="none") as memory:
        memory.add_many(NOTES)

        assert memory.search("staging database").relevant
        assert not memory.search("how do I back up?").relevant
