"""The page of this framework does what it says."""

from doc_pages import ROOT, run_examples


def test_the_examples_of_the_page_print_what_it_says() -> None:
    printed, said = run_examples(ROOT / "docs" / "langgraph.md")

    assert printed == said
    assert said
