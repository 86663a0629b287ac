"""The page while others write and while the server is away: it follows, it recovers, and no edit is lost."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect
from tabs import OpenTab, Tab

import memorist
from web_server import TOKEN, WebServer, web_server


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "memory.db"
    with memorist.open(path, embedder="none") as memory:
        memory.add("The lift is out of order", on_near_duplicate="off")
        memory.add("The coffee is on the third floor", on_near_duplicate="off")
    return path


def run_command(database: Path, *arguments: str) -> None:
    environ = {**os.environ, "MEMORIST_EMBEDDER": "none"}
    subprocess.run([sys.executable, "-m", "memorist", "--db", str(database), *arguments], check=True, env=environ)


def id_of(database: Path, beginning: str) -> str:
    with memorist.open(database, embedder="none") as memory:
        return next(one.id for one in memory.list() if one.content.startswith(beginning))


def kill(server: WebServer) -> None:
    server.process.send_signal(signal.SIGKILL)
    server.process.wait()


def start_again(server: WebServer, database: Path) -> Any:
    return web_server(database, "--port", str(server.address[1]))


def begin_edit(tab: Tab, text: str) -> None:
    tab.page.get_by_role("button", name="Edit").click()
    tab.page.get_by_label("Text").fill(text)


def test_two_tabs_and_the_command_line_see_what_the_others_write(database: Path, open_tab: OpenTab) -> None:
    with web_server(database) as server, open_tab(server) as first, open_tab(server, "#/timeline") as second:
        expect(first.page.locator("a.memory-row")).to_have_count(2)
        run_command(database, "add", "The canteen has new opening hours")
        for tab in (first, second):
            row = tab.page.locator("a.memory-row").filter(has_text="The canteen has new opening hours")
            expect(row).to_be_visible()

        first.page.locator("a.memory-row").filter(has_text="The lift").click()
        begin_edit(first, "The lift works again")
        first.press("Control+Enter")
        expect(second.page.locator("a.memory-row").filter(has_text="The lift works again")).to_be_visible()

        run_command(database, "search", "canteen", "--record", "log")
        second.open("#/recalls")
        expect(second.page.locator("li.recall").first).to_contain_text("canteen")


def test_an_edit_outlives_the_server_and_is_saved_when_it_is_back(database: Path, open_tab: OpenTab) -> None:
    id = id_of(database, "The lift")
    with web_server(database) as server, open_tab(server, f"#/memory/{id}", strict=False) as tab:
        begin_edit(tab, "The lift works again, since Monday")
        kill(server)
        expect(tab.page.get_by_text("The server does not answer.")).to_be_visible()
        tab.page.get_by_role("button", name="Save").click()
        expect(tab.page.get_by_text("Not saved yet")).to_be_visible()
        expect(tab.page.get_by_label("Text")).to_have_value("The lift works again, since Monday")

        with start_again(server, database):
            expect(tab.page.get_by_text("Saved.")).to_be_visible()
            expect(tab.page.get_by_text("The server does not answer.")).to_have_count(0)
            expect(tab.page.locator("article")).to_have_text("The lift works again, since Monday")
            with memorist.connect(server.url, token=TOKEN) as memory:
                assert memory.get(id).content == "The lift works again, since Monday"
                assert len(memory.history(id)) == 1
            run_command(database, "add", "Written after the restart")
            tab.press("g", "s")
            expect(tab.page.locator("a.memory-row").first).to_contain_text("Written after the restart")


def test_a_draft_outlives_a_reload_of_the_page(database: Path, open_tab: OpenTab) -> None:
    with web_server(database) as server, open_tab(server, f"#/memory/{id_of(database, 'The lift')}") as tab:
        begin_edit(tab, "A half-written")
        tab.page.reload()
        expect(tab.page.get_by_label("Text")).to_have_value("A half-written")
        tab.page.get_by_role("button", name="Discard").click()
        expect(tab.page.locator("article")).to_have_text("The lift is out of order")


def test_a_change_by_somebody_else_is_a_conflict_that_shows_both_texts(database: Path, open_tab: OpenTab) -> None:
    id = id_of(database, "The lift")
    with web_server(database) as server, open_tab(server, f"#/memory/{id}") as tab:
        begin_edit(tab, "The lift is out of order until Friday")
        run_command(database, "update", id, "The lift is being repaired")
        tab.press("Control+Enter")
        conflict = tab.page.get_by_role("alertdialog")
        expect(conflict.locator("ins").last).to_contain_text("until Friday")
        expect(conflict.locator("del").first).to_contain_text("being")
        conflict.get_by_role("button", name="Save mine over it").click()
        expect(tab.page.locator("article")).to_have_text("The lift is out of order until Friday")


def test_a_session_that_ended_is_opened_again_and_keeps_the_edit(database: Path, open_tab: OpenTab) -> None:
    with web_server(database) as server, open_tab(server, f"#/memory/{id_of(database, 'The lift')}") as tab:
        begin_edit(tab, "Not lost")
        tab.page.context.clear_cookies()
        # Not by the pointer: the page may have noticed by itself, and asks already.
        tab.page.get_by_role("button", name="Save").dispatch_event("click")
        dialog = tab.page.get_by_role("dialog", name="Open this page again")
        dialog.get_by_label("Token").fill("wrong")
        dialog.get_by_role("button", name="Open").click()
        expect(dialog.get_by_text("This is not the token of the server.")).to_be_visible()
        dialog.get_by_label("Token").fill(TOKEN)
        dialog.get_by_role("button", name="Open").click()
        expect(dialog).to_have_count(0)
        expect(tab.page.get_by_label("Text")).to_have_value("Not lost")
        tab.page.get_by_role("button", name="Save").click()
        expect(tab.page.locator("article")).to_have_text("Not lost")


def test_answers_that_come_late_do_not_replace_newer_ones(database: Path, open_tab: OpenTab) -> None:
    with web_server(database) as server, open_tab(server) as tab:
        held = []

        def hold_first(route: Any) -> None:
            if not held and '"query":"lift"' in (route.request.post_data or ""):
                held.append(route)
            else:
                route.continue_()

        tab.page.route("**/api/v1/search", hold_first)
        box = tab.page.get_by_label("Search what is remembered")
        box.fill("lift")
        expect(tab.page).to_have_url(f"{server.url}/#/search?q=lift")
        box.fill("coffee")
        hits = tab.page.locator("ol.hits > li")
        expect(hits).to_have_count(1)
        held[0].continue_()
        expect(tab.page.get_by_role("status").filter(has_text="1 hit in")).to_be_visible()
        expect(hits).to_contain_text("third floor")


def test_a_read_only_server_offers_no_change(database: Path, open_tab: OpenTab) -> None:
    with (
        web_server(database, "--read-only") as server,
        open_tab(server, f"#/memory/{id_of(database, 'The lift')}") as tab,
    ):
        expect(tab.page.get_by_role("button", name="Edit")).to_be_disabled()
        expect(tab.page.get_by_role("button", name="Forget")).to_be_disabled()
