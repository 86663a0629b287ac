"""Every view of the page, by mouse and by keyboard."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, expect
from tabs import OpenTab, Tab

import memorist
from memorist.web.operations import ServerCalls
from memorist.web.server import _LaunchFile
from web_server import WebServer, web_server


def memory_of(memory: Any, beginning: str) -> Any:
    return next(one for one in memory.list(limit=200) if one.content.startswith(beginning))


def hits(tab: Tab) -> Locator:
    return tab.page.locator("ol.hits > li")


class TestSearch:
    def test_it_answers_while_you_type_and_says_why_each_hit_stands_there(self, tab: Tab) -> None:
        tab.page.get_by_label("Search what is remembered").fill("how do we deploy")

        expect(hits(tab).first).to_contain_text("make ship")
        expect(hits(tab).first.locator("mark").first).to_have_text("deploy")
        hits(tab).first.get_by_role("button", name="Why").click()
        rows = hits(tab).first.locator(".why-table tbody td").all_inner_texts()
        total = float(hits(tab).first.locator(".why-table tfoot td").inner_text())
        assert sum(float(row.replace("−", "-")) for row in rows) == pytest.approx(total, abs=0.003)

    def test_keys_go_from_the_field_to_a_memory_and_back(self, tab: Tab) -> None:
        tab.press("Escape", "/")
        tab.page.keyboard.type("release train", delay=10)
        expect(hits(tab).first).to_contain_text("release train")

        tab.press("Enter", "j", "k", "Enter")
        expect(tab.page).to_have_url(re.compile("#/memory/"))
        expect(tab.page.locator("article")).to_contain_text("The release train leaves")
        tab.press("Escape")
        expect(tab.page.get_by_label("Search what is remembered")).to_have_value("release train")

    def test_what_is_typed_as_soon_as_the_field_is_there_stays(self, tab: Tab) -> None:
        tab.open("#/insights")
        tab.heading("Insights")

        tab.page.evaluate("""() => {
          new MutationObserver((_, observer) => {
            const field = document.querySelector("#search");
            if (!field) return;
            observer.disconnect();
            field.value = "deploy";
            field.dispatchEvent(new InputEvent("input", { bubbles: true }));
          }).observe(document.body, { childList: true, subtree: true });
          location.hash = "#/search";
        }""")

        expect(hits(tab).first).to_contain_text("make ship")
        expect(tab.page.get_by_label("Search what is remembered")).to_have_value("deploy")

    def test_it_says_plainly_when_nothing_is_relevant(self, tab: Tab) -> None:
        tab.open("#/search?q=volcano%20eruptions%20on%20Jupiter")

        expect(tab.page.get_by_text("Nothing relevant is remembered.")).to_be_visible()

    def test_a_facet_narrows_and_its_chip_lifts_it_again(self, tab: Tab) -> None:
        tab.open("#/search?q=pictures%20on%20phones")  # found by meaning alone, and counted all the same
        side = tab.page.get_by_role("complementary", name="Narrow the search")
        side.get_by_role("button", name="mobile").first.click()
        expect(tab.page).to_have_url(re.compile("project=mobile"))

        tab.page.get_by_role("button", name="Lift the filter Project: mobile").click()
        expect(tab.page).not_to_have_url(re.compile("project="))

    def test_what_a_filter_hid_is_a_chip_that_lets_it_through(self, tab: Tab) -> None:
        tab.open("#/search?q=cafe%20accents")
        expect(hits(tab).first).to_contain_text("ignores case and accents")
        tab.page.get_by_role("group", name="Held back by filters").get_by_role("button").first.click()

        expect(hits(tab).filter(has_text="keeps accents")).to_be_visible()
        expect(hits(tab).filter(has_text="keeps accents")).to_contain_text("Superseded")

    def test_two_profiles_stand_side_by_side_and_thumbs_are_feedback(self, tab: Tab, site_memory: Any) -> None:
        tab.open("#/search?q=retries%20capped")
        tab.page.get_by_role("button", name="Compare").click()
        left = tab.page.get_by_role("region", name="Ranked by balanced")
        expect(left.locator("li").first).to_contain_text("ADR-016")
        left.get_by_role("button", name="Good answer").first.click()
        expect(tab.page.get_by_text("Noted as a good answer.")).to_be_visible()

        given = site_memory.searches.list_feedback()
        assert [(one.query, one.good) for one in given] == [("retries capped", True)]

    def test_a_passage_of_a_file_opens_at_its_lines(self, tab: Tab) -> None:
        tab.open("#/search?q=rollback%20revert")
        hits(tab).first.locator("a[data-row]").click()

        target = tab.page.get_by_role("region", name="The passage that was found")
        expect(target).to_contain_text("A rollback takes four minutes")
        expect(target).to_be_focused()
        assert "8" in target.locator(".line-number").all_inner_texts()


class TestTimeline:
    def test_the_slider_sets_the_whole_page_to_a_time(self, tab: Tab, site: WebServer) -> None:
        tab.press("Escape", "g", "t")
        tab.heading("Timeline")
        expect(tab.page.get_by_text("The Dublin region moves to Stockholm")).to_be_visible()

        slider = tab.page.get_by_label("As of")
        slider.evaluate("""input => {
            input.value = String(Date.now() - 100 * 86400000);
            input.dispatchEvent(new Event('input', { bubbles: true }));
        }""")
        expect(tab.page.get_by_text("As things stood on")).to_be_visible()
        expect(tab.page.get_by_text("The Dublin region moves to Stockholm")).to_have_count(0)
        tab.press("g", "s")
        tab.page.get_by_label("Search what is remembered").fill("rate limit API")
        expect(hits(tab).first).to_contain_text("600 requests")
        expect(hits(tab).filter(has_text="900 requests")).to_have_count(0)
        tab.page.get_by_role("button", name="Back to now").click()
        expect(hits(tab).filter(has_text="900 requests")).to_be_visible()

    def test_the_keyboard_moves_the_slider_and_the_rows(self, tab: Tab) -> None:
        tab.open("#/timeline")
        tab.page.get_by_label("As of").focus()
        tab.press("Home")
        expect(tab.page.get_by_text("Nothing had happened yet")).to_be_visible()
        tab.press("End")
        expect(tab.page.locator("a.memory-row").first).to_be_visible()
        tab.page.get_by_label("As of").blur()
        tab.press("j", "j")
        expect(tab.page.locator("a.memory-row:focus")).to_have_count(1)


class TestMemory:
    def test_an_edit_is_saved_shown_as_a_difference_and_undone(self, tab: Tab, site_memory: Any) -> None:
        memory = memory_of(site_memory, "Photos are resized")
        tab.open(f"#/memory/{memory.id}")
        expect(tab.page.locator("article")).to_contain_text("1600 pixels")
        tab.press("e")
        text = tab.page.get_by_label("Text")
        text.fill(memory.content.replace("1600", "2048"))
        tab.press("Control+Enter")
        expect(tab.page.get_by_text("Saved.")).to_be_visible()
        expect(tab.page.locator("article")).to_contain_text("2048 pixels")

        tab.page.get_by_role("tab", name="History").click()
        expect(tab.page.locator(".diff del")).to_have_text("1600")
        expect(tab.page.locator(".diff ins")).to_have_text("2048")
        tab.press("u")
        expect(tab.page.locator("article")).to_contain_text("1600 pixels")

    def test_it_is_forgotten_and_restored(self, tab: Tab, site_memory: Any) -> None:
        memory = memory_of(site_memory, "Push notifications")
        tab.open(f"#/memory/{memory.id}")
        tab.page.get_by_role("button", name="Forget").click()
        expect(tab.page.get_by_text("No search finds it.")).to_be_visible()
        tab.page.get_by_role("button", name="Undo").click()

        expect(tab.page.get_by_role("button", name="Forget")).to_be_visible()
        assert site_memory.get(memory.id).deleted_at is None

    def test_keys_pin_it_and_undo_that(self, tab: Tab, site_memory: Any) -> None:
        memory = memory_of(site_memory, "Refunds above 500")
        tab.open(f"#/memory/{memory.id}")
        expect(tab.page.locator("article")).to_contain_text("Refunds")
        tab.press("p")
        expect(tab.page.get_by_role("button", name="Pinned")).to_be_visible()
        tab.press("u")
        expect(tab.page.get_by_role("button", name="Pin", exact=True)).to_be_visible()

    def test_another_memory_supersedes_it_until_that_is_undone(self, tab: Tab, site_memory: Any) -> None:
        memory = memory_of(site_memory, "Dark mode of the app")
        tab.open(f"#/memory/{memory.id}")
        tab.page.get_by_role("button", name="Supersede").click()
        tab.page.get_by_label("Search for the newer memory, or write it").fill(
            "The app has its own dark mode switch again"
        )
        tab.page.get_by_role("button", name="Remember this text instead").click()
        expect(tab.page.get_by_text("Superseded by")).to_be_visible()
        tab.press("u")
        expect(tab.page.get_by_text("Superseded by")).to_have_count(0)

    def test_facts_have_their_decay_and_can_be_added(self, tab: Tab, site_memory: Any) -> None:
        memory = memory_of(site_memory, "Tom owns the payment")
        tab.open(f"#/memory/{memory.id}")
        expect(
            tab.page.get_by_role("img", name=re.compile(r"Confidence \d+ % now, halved every 231 days"))
        ).to_be_visible()
        tab.page.get_by_label("A new fact").fill("Tom is on leave in May")
        tab.press("Enter")
        expect(tab.page.locator(".fact").filter(has_text="on leave in May")).to_be_visible()

    def test_it_tells_what_it_is_related_to_and_who_recalled_it(self, tab: Tab, site_memory: Any) -> None:
        memory = memory_of(site_memory, "Tom owns the payment")
        tab.open(f"#/memory/{memory.id}")
        tab.page.get_by_role("tab", name="Facts").focus()
        tab.press("ArrowRight")
        expect(tab.page.get_by_role("tabpanel")).to_contain_text("Refunds above 500")
        tab.page.get_by_role("tab", name="Recalls").click()
        expect(tab.page.get_by_role("tabpanel")).to_contain_text("who owns the payment contract")

    def test_a_new_memory_is_written_with_n(self, tab: Tab) -> None:
        expect(tab.page.locator("a.memory-row").first).to_be_visible()
        tab.press("Escape")
        tab.press("n")
        tab.page.get_by_label("What to remember").fill("The kitchen is closed on Fridays")
        tab.page.get_by_role("button", name="Remember", exact=True).click()
        expect(tab.page.locator("article")).to_have_text("The kitchen is closed on Fridays")


class TestReading:
    def test_a_turn_that_was_found_opens_in_its_conversation(self, tab: Tab) -> None:
        tab.open("#/search?q=newsletter%20call%20request%20path")
        hits(tab).filter(has_text="its service took 9 seconds").locator("a[data-row]").click()

        expect(tab.page.locator("li.turn")).to_have_count(5)
        expect(tab.page.locator("li.turn.is-target")).to_contain_text("At the newsletter call")
        expect(tab.page.locator("li.turn.is-target")).to_be_focused()

    def test_conversations_and_documents_are_opened_by_keys(self, tab: Tab) -> None:
        tab.press("Escape")
        tab.press("g", "c")
        tab.heading("Conversations")
        expect(tab.page.locator("a.list-link")).to_have_count(2)
        tab.press("j", "Enter")
        tab.heading("The crash on Android 12 is back")
        tab.press("g", "d")
        tab.heading("Documents")
        expect(tab.page.locator("a.list-link")).to_have_count(1)
        tab.press("j", "Enter")
        expect(tab.page.locator(".document-text")).to_contain_text("Run make ship on the release branch")


class TestReview:
    def test_keys_merge_and_undo(self, tab: Tab, site_memory: Any) -> None:
        tab.press("Escape")
        tab.press("g", "r")
        tab.heading("Review")
        item = tab.page.locator("li.review-item")
        expect(item).to_contain_text("94% of the words in common")
        tab.press("j", "m")
        expect(tab.page.get_by_text("Nothing to review")).to_be_visible()
        assert memory_of(site_memory, "Backups are kept for 35 days and tried").superseded_by is not None
        tab.press("u")
        expect(item).to_contain_text("94% of the words in common")
        assert memory_of(site_memory, "Backups are kept for 35 days and tried").superseded_by is None

    def test_a_contradiction_is_settled_and_unsettled(self, tab: Tab) -> None:
        tab.open("#/review")
        tab.page.get_by_role("tab", name="Contradictions").click()
        item = tab.page.locator("li.review-item")
        expect(item).to_contain_text("numbers: 900 / 600")
        item.get_by_role("button", name="Both are right").click()
        expect(item).to_have_count(0)
        tab.page.get_by_role("button", name="Undo").click()
        expect(item).to_contain_text("numbers: 900 / 600")

    def test_a_faded_fact_is_confirmed_and_one_nobody_recalled_is_forgotten(self, tab: Tab) -> None:
        tab.open("#/review")
        tab.page.get_by_role("tab", name="Faded facts").click()
        items = tab.page.locator("li.review-item")
        expect(items.first).to_contain_text("sure now")
        count = items.count()
        tab.press("j", "m")
        expect(items).to_have_count(count - 1)
        tab.press("u")
        expect(items).to_have_count(count)

        tab.page.get_by_role("tab", name="Never recalled").click()
        expect(items.first).to_be_visible()
        count = items.count()
        tab.press("j", "j", "f")
        expect(items).to_have_count(count - 1)
        tab.press("u")
        expect(items).to_have_count(count)

    def test_a_stored_secret_is_found(self, tab: Tab, site_memory: Any) -> None:
        added = site_memory.add("The deploy key is ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8")
        tab.open("#/review")
        tab.page.get_by_role("tab", name="Secrets").click()
        expect(tab.page.locator("li.review-item")).to_contain_text("The deploy key")
        site_memory.forget(added.id, hard=True)


class TestLookingAround:
    def test_a_recall_appears_as_it_happens(self, tab: Tab, site_memory: Any) -> None:
        tab.press("Escape", "g", "w")
        tab.heading("What your agent was told")
        expect(tab.page.locator("li.recall").first).to_contain_text("wifi password")
        database = ServerCalls(site_memory).settings().settings["database"]
        with memorist.open(database, embedder="none", surface="hook") as memory:
            memory.context("who reviews database changes", core=False)

        first = tab.page.locator("li.recall").first
        expect(first).to_contain_text("who reviews database changes")
        expect(first).to_contain_text(re.compile(r"hook.*\d+ tokens put into the prompt", re.DOTALL))
        first.get_by_role("button", name="Show what was put into the prompt").click()
        prompt = first.get_by_role("region", name="What was put into the prompt")
        expect(prompt).to_contain_text("Lena reviews everything")
        told = memory_of(site_memory, "Lena reviews everything")
        site_memory.forget(told.id)
        tab.page.reload()
        expect(first).to_contain_text("who reviews database changes")
        expect(first).not_to_contain_text("Lena reviews everything")
        site_memory.restore(told.id)

    def test_the_review_looks_further_than_its_first_page(self, path: Path, open_tab: OpenTab) -> None:
        with memorist.open(path, embedder="none") as memory:
            memory.add_many({"content": f"old memory {number}", "created_at": "2020-01-01"} for number in range(60))
        with web_server(path) as server, open_tab(server, "#/review") as tab:
            tab.page.get_by_role("tab", name="Never recalled").click()
            items = tab.page.locator("li.review-item")
            expect(items).to_have_count(50)
            tab.page.get_by_role("button", name="Look further").click()
            expect(items).to_have_count(60)
            expect(tab.page.get_by_role("button", name="Look further")).to_have_count(0)

    def test_the_surroundings_of_a_memory_are_drawn_and_listed(self, tab: Tab, site_memory: Any) -> None:
        memory = memory_of(site_memory, "Tom owns the payment")
        tab.open(f"#/memory/{memory.id}")
        expect(tab.page.locator("article")).to_contain_text("Tom owns")
        tab.press("o")
        tab.heading("Surroundings")
        listed = tab.page.get_by_role("navigation", name="Memories of the graph").get_by_role("link")
        expect(listed.first).to_contain_text("in the middle")
        canvas = tab.page.locator("canvas")
        drawn = "canvas => canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data.some(Boolean)"
        assert canvas.evaluate(drawn)
        tab.press("j", "j", "Enter")
        expect(tab.page).to_have_url(re.compile("#/memory/"))
        expect(tab.page).not_to_have_url(re.compile(memory.id))

    def test_insights_are_plots_and_tables(self, tab: Tab) -> None:
        tab.press("Escape", "g", "i")
        tab.heading("Insights")
        expect(tab.page.locator("figure canvas")).to_have_count(4)
        growth = tab.page.locator("figure").filter(has=tab.page.get_by_role("heading", name="Growth"))
        growth.get_by_text("As a table").click()
        expect(growth.locator("tbody tr").first).to_be_visible()

    def test_saved_runs_of_an_evaluation_are_plotted(self, tab: Tab, tmp_path: Path) -> None:
        measures = {"ndcg@10": {"mean": 0.712, "low": 0.68, "high": 0.74}}
        run = {
            "memorist_eval": 1,
            "version": "1.0",
            "sets": [{"name": "notes", "ways": [{"name": "<b>balanced</b>", "measures": measures}]}],
        }
        for name in ("before.json", "after.json"):
            (tmp_path / name).write_text(json.dumps(run))
        (tmp_path / "other.json").write_text("{}")
        tab.open("#/insights")
        tab.page.get_by_label("Open runs").set_input_files(list(tmp_path.glob("*.json")))

        section = tab.page.get_by_role("region", name="Search quality")
        expect(section.locator("tbody tr").first).to_contain_text("<b>balanced</b>")
        expect(section.locator("tbody tr").first).to_contain_text("0.712")
        expect(section.locator("canvas")).to_have_count(1)
        expect(tab.page.get_by_text("other.json is not a run that memorist eval saved.")).to_be_visible()

    def test_a_dropped_file_is_imported(self, tab: Tab, tmp_path: Path) -> None:
        file = tmp_path / "chat.jsonl"
        file.write_text(
            '{"session": "s", "role": "user", "content": "Remember that the printer is called Gutenberg"}\n'
        )
        tab.press("Escape", "g", "m")
        tab.heading("Import")
        tab.page.get_by_label("Choose a file").set_input_files(file)
        expect(tab.page.get_by_text("1 memory added, in 1 conversation")).to_be_visible()
        tab.page.get_by_label("Choose a file").set_input_files(Path(__file__))
        expect(tab.page.locator(".note.is-bad")).to_contain_text("test_views.py")

    def test_the_file_that_opens_the_page_logs_in_and_settings_log_out(self, path: Path, browser: Browser) -> None:
        with web_server(path) as server, browser.new_context() as context:
            launch_file = _LaunchFile(server.page)
            page = context.new_page()
            page.goto(launch_file.uri)
            page.wait_for_url(f"{server.url}/**")
            launch_file.remove()
            page.goto(f"{server.url}/#/settings")
            page.get_by_role("button", name="Log out").click()
            expect(page.get_by_label("Token")).to_be_visible()

    def test_settings_choose_the_theme_and_check_the_database(self, tab: Tab) -> None:
        tab.press("Escape", "g", ",")
        tab.heading("Settings")
        tab.page.get_by_label("Theme").select_option("dark")
        background = "getComputedStyle(document.body).backgroundColor"
        assert tab.page.evaluate(background) == "rgb(19, 20, 22)"
        tab.page.reload()
        assert tab.page.evaluate(background) == "rgb(19, 20, 22)"
        tab.page.get_by_role("button", name="Check now").click()
        expect(tab.page.get_by_text("All is well.")).to_be_visible()

    def test_help_lists_the_keys_and_gives_the_focus_back(self, tab: Tab) -> None:
        tab.page.get_by_role("button", name="Keyboard").focus()
        tab.press("?")
        expect(tab.page.get_by_role("dialog", name="Keyboard")).to_be_visible()
        tab.press("Escape")
        expect(tab.page.get_by_role("dialog", name="Keyboard")).to_have_count(0)
        expect(tab.page.get_by_role("button", name="Keyboard")).to_be_focused()


def test_an_empty_database_shows_how_to_fill_it_and_a_sample_is_one_click_away(
    tmp_path: Path, open_tab: OpenTab
) -> None:
    with web_server(tmp_path / "memory.db") as server, open_tab(server) as tab:
        tab.heading("Nothing is remembered yet")
        tab.page.get_by_role("button", name="Add sample data").click()
        expect(tab.page.locator("a.memory-row").first).to_contain_text("Stockholm")
        expect(tab.page.get_by_text("43 sample memories added.")).to_be_visible()


def test_a_list_of_many_memories_draws_only_what_is_visible_and_keeps_its_place(
    tmp_path: Path, open_tab: OpenTab
) -> None:
    import memorist

    with memorist.open(tmp_path / "memory.db", embedder="none") as memory:
        memory.add_many(f"note number {number}" for number in range(3000))
    with web_server(tmp_path / "memory.db") as server, open_tab(server) as tab:
        rows = tab.page.locator("a.memory-row")
        expect(rows.first).to_contain_text("note number 2999")
        for page in range(1, 6):
            tab.page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
            expect(rows.filter(has_text=f"note number {2999 - page * 100}")).to_be_attached()
        assert rows.count() < 60

        row = rows.filter(has_text="note number 2501")
        row.click()
        expect(tab.page.locator("article")).to_have_text("note number 2501")
        tab.page.go_back()
        expect(row).to_be_focused()
        expect(row).to_be_in_viewport()
