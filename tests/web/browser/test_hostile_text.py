"""Memories are hostile text: strings that would run as script in a careless page are text in every view."""

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import expect
from tabs import OpenTab

import memorist
from web_server import WebServer, web_server

HOSTILE = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(2)>",
    "<svg/onload=alert(3)>",
    '"><script>alert(4)</script>',
    "' onmouseover='alert(5)' x='",
    "</mark><script>alert(6)</script><mark>",
    "<mark><img src=x onerror=alert(7)></mark>",
    "<iframe srcdoc='<script>parent.alert(8)</script>'></iframe>",
    "javascript:alert(9)",
    "<a href=javascript:alert(10)>click</a>",
    "</textarea><script>alert(11)</script>",
    "<style>*{display:none}</style>",
    "<base href=//evil.example/>",
    "<meta http-equiv=refresh content=0;url=//evil.example>",
    "{{constructor.constructor('alert(12)')()}}",
    "${alert(13)}",
    "\u202e<script>alert(14)</script>",
    '{"type":"script","props":{"dangerouslySetInnerHTML":{"__html":"<img src=x onerror=alert(15)>"}}}',
    "<form action=//evil.example><button>send</button></form>",
    "<link rel=stylesheet href=//evil.example/x.css>",
)
WORD = "needle"


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[WebServer, list[str]]]:
    """A server whose memory is hostile in every field, and the routes of all its views."""
    folder = tmp_path_factory.mktemp("hostile")
    all_of_them = " ".join(HOSTILE)
    with memorist.open(folder / "memory.db", embedder="none") as memory:
        ids = [
            memory.add(
                f"{WORD} {text}", title=text, summary=text, project=text[:60], kind=text[:60], source=text,
                tags=[text.replace(",", " ")[:60]], metadata={text: text}, on_near_duplicate="off",
                facts=[{"text": f"fact {text}", "kind": text[:60], "confidence": 0.1}],
                created_at="2026-01-01",
            ).id
            for text in HOSTILE
        ]  # fmt: skip
        first = memory.add(f"{WORD} {all_of_them}", on_near_duplicate="off")
        memory.update(first.id, content=f"{WORD} changed {all_of_them}")
        memory.links.add(first.id, ids[0], "<b>bad</b>")
        memory.supersede(ids[1], first.id)
        memory.search(f"{WORD} {all_of_them}", record="log")
        memory.lenses.set("<img src=x onerror=alert(16)>", project="x")
        lines = [{"session": "talk", "role": "<i>user</i>"[:20], "content": text} for text in HOSTILE]
        (folder / "chat.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
        memory.transfer.import_conversations(folder / "chat.jsonl")
        session = memory.sessions.list()[0].id
        memory.sessions.summarise(session, all_of_them)
        (folder / "hostile.md").write_text(f"# {HOSTILE[1]}\n\n{WORD} {all_of_them}\n", encoding="utf-8")
        memory.documents.index([folder / "hostile.md"])
        document = memory.documents.list()[0].id
    routes = [
        "", f"#/search?q={WORD}", f"#/search?q={quote(all_of_them[:200])}", f"#/search?q={WORD}&other=rank",
        f"#/search?q={WORD}&project={quote(HOSTILE[1])}", "#/timeline", f"#/memory/{first.id}", f"#/memory/{ids[1]}",
        f"#/memory/{ids[2]}", f"#/memory/{quote(HOSTILE[0], safe='')}", f"#/graph/{first.id}", "#/conversations",
        f"#/conversation/{quote(session, safe='')}", "#/documents", f"#/document/{document}?line=1", "#/review",
        "#/recalls", "#/insights", "#/import", "#/settings", f"#/{quote(HOSTILE[0], safe='')}",
    ]  # fmt: skip
    with web_server(folder / "memory.db") as server:
        yield server, routes


def test_hostile_text_is_text_in_every_view(hostile: tuple[WebServer, list[str]], open_tab: OpenTab) -> None:
    server, routes = hostile
    with open_tab(server) as tab:
        for route in routes:
            tab.open(route)
            expect(tab.page.locator(".skeleton")).to_have_count(0)
            for button in tab.page.get_by_role("tab").all():
                button.click()
                expect(tab.page.locator(".skeleton")).to_have_count(0)
            assert tab.problems == [], route
            foreign = (
                "main script, main iframe, main img, main style, main base, main form[action], main link, main meta"
            )
            assert tab.page.locator(foreign).count() == 0, route
            assert tab.page.locator("[onerror], [onload], [onmouseover], a[href^='javascript:']").count() == 0, route


def test_the_text_itself_is_shown(hostile: tuple[WebServer, list[str]], open_tab: OpenTab) -> None:
    server, _ = hostile
    with open_tab(server, f"#/search?q={WORD}") as tab:
        texts = tab.page.locator("ol.hits .hit-text")
        expect(texts.filter(has_text="<img src=x onerror=alert(2)>").first).to_be_visible()
        expect(texts.filter(has_text="</textarea><script>alert(11)</script>").first).to_be_visible()


def test_an_edit_shows_hostile_text_as_it_is(hostile: tuple[WebServer, list[str]], open_tab: OpenTab) -> None:
    server, routes = hostile
    route = next(route for route in routes if route.startswith("#/memory/"))
    with open_tab(server, route) as tab:
        tab.page.get_by_role("button", name="Edit").click()
        assert tab.page.get_by_label("Text").input_value() == f"{WORD} changed {' '.join(HOSTILE)}"


def test_hostile_answers_of_an_import_are_text(
    hostile: tuple[WebServer, list[str]], open_tab: OpenTab, tmp_path: Path
) -> None:
    server, _ = hostile
    file = tmp_path / "<img src=x onerror=alert(1)>.json"
    file.write_text('{"<script>alert(1)</script>": 1}')
    with open_tab(server, "#/import") as tab:
        tab.page.get_by_label("Choose a file").set_input_files(file)
        expect(tab.page.locator(".note.is-bad")).to_contain_text("<img src=x onerror=alert(1)>.json")
