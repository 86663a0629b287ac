"""How memories, hits and results look in a console and in a notebook."""

from memorist import Memorist

HOSTILE = "<script>alert(1)</script>\x1b[31m\u202e & 'more' retries"


def test_a_line_tells_what_it_is(memory: Memorist) -> None:
    added = memory.add("Retries are capped at 5", id="k", project="api", tags=["x"], created_at="2026-01-01T12:00Z")
    found = memory.search("retries")

    assert repr(added) == "<Memory k 2026-01-01 project=api #x: 'Retries are capped at 5'>"
    assert repr(found[0]).startswith("<Hit k: 'Retries are capped at 5', score ")
    assert repr(found).startswith("<Results for 'retries': 1 in ")
    assert "1. <Hit k" in repr(found)


def test_an_entry_of_an_index_shows_the_beginning_of_its_text(memory: Memorist) -> None:
    memory.add("Retries are capped at 5", id="k", created_at="2026-01-01T12:00Z")

    assert repr(memory.timeline()[0]) == "<Memory k 2026-01-01: 'Retries are capped at 5'>"
    assert repr(memory.search("retries", detail="index")[0]).startswith("<Hit k: 'Retries are capped at 5', score ")


def test_nothing_that_was_stored_becomes_markup_or_steers_a_terminal(memory: Memorist) -> None:
    added = memory.add(HOSTILE, id="<b>", project="<i>", title="<img src=x>", metadata={"<u>": "</td>"})
    found = memory.search("retries <script>")

    for html in (added._repr_html_(), found._repr_html_()):
        assert "&lt;script&gt;" in html
        assert not any(tag in html for tag in ("<script", "<b>", "<i>", "<img", "<u>"))
        assert html.count("<td>") == html.count("</td>")
    for text in (repr(added), repr(found), added._repr_html_(), found._repr_html_()):
        assert "\x1b" not in text
        assert "\u202e" not in text
    assert "<mark>retries</mark>" in found._repr_html_()
