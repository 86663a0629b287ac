"""The page for everybody: axe-core finds nothing serious in any view, in light or dark, and narrow screens fit."""

from typing import Any

import pytest
from playwright.sync_api import expect
from tabs import OpenTab, Tab

from node_packages import fetch_package
from web_server import WebServer

AXE, AXE_VERSION = "axe-core", "4.14.0"
SERIOUS = ("serious", "critical")
NARROW = {"width": 360, "height": 740}


def routes_of(memory: Any) -> list[str]:
    tom = next(one for one in memory.list(limit=200) if one.content.startswith("Tom owns"))
    document = memory.documents.list()[0].id
    return [
        "", "#/search?q=rate%20limit", "#/search?q=rate%20limit&other=rank", "#/timeline", f"#/memory/{tom.id}",
        f"#/graph/{tom.id}", "#/conversations", "#/conversation/jsonl%3Acheckout-timeouts", "#/documents",
        f"#/document/{document}?line=7", "#/review", "#/recalls", "#/insights", "#/import", "#/settings",
    ]  # fmt: skip


def settle(tab: Tab) -> None:
    expect(tab.page.locator(".skeleton")).to_have_count(0)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(site: WebServer, site_memory: Any, open_tab: OpenTab, scheme: str) -> None:
    script = (fetch_package(AXE, AXE_VERSION) / "axe.min.js").read_text(encoding="utf-8")
    # What a dark page could have that a light one has not is a matter of colours.
    options = {"runOnly": ["color-contrast", "link-in-text-block"]} if scheme == "dark" else {}
    found = []
    with open_tab(site, color_scheme=scheme, bypass_csp=True) as tab:  # axe is put into the page, which the CSP forbids
        for route in routes_of(site_memory):
            tab.open(route)
            settle(tab)
            tab.page.evaluate("typeof axe") == "object" or tab.page.add_script_tag(content=script)
            report = tab.page.evaluate("options => axe.run(document, options)", options)
            assert report["passes"], route  # it has looked at something
            found += [
                (route, rule["id"], node["html"][:200], node["failureSummary"][:300])
                for rule in report["violations"]
                if rule["impact"] in SERIOUS
                for node in rule["nodes"][:2]
            ]
    assert found == []


def test_a_narrow_screen_never_scrolls_sideways(site: WebServer, site_memory: Any, open_tab: OpenTab) -> None:
    too_wide = []
    with open_tab(site, viewport=NARROW, has_touch=True, is_mobile=True) as tab:
        for route in routes_of(site_memory):
            tab.open(route)
            settle(tab)
            width = tab.page.evaluate("document.documentElement.scrollWidth")
            too_wide += [(route, width)] if width > NARROW["width"] else []
    assert too_wide == []


def test_a_narrow_screen_reaches_every_view(site: WebServer, open_tab: OpenTab) -> None:
    with open_tab(site, viewport=NARROW, has_touch=True, is_mobile=True) as tab:
        tab.page.get_by_role("link", name="Timeline").tap()
        tab.heading("Timeline")
        tab.page.get_by_role("button", name="More").tap()
        tab.page.get_by_role("navigation", name="More views").get_by_role("link", name="Insights").tap()
        tab.heading("Insights")
        expect(tab.page.get_by_role("dialog")).to_have_count(0)


def test_a_new_view_takes_the_focus_and_hits_are_announced(tab: Tab) -> None:
    tab.press("Escape", "g", "i")
    tab.heading("Insights")
    expect(tab.page.locator("main")).to_be_focused()
    tab.press("g", "s")
    tab.page.get_by_label("Search what is remembered").fill("deploy")
    expect(tab.page.get_by_role("status").filter(has_text="hits in")).to_be_visible()
