"""The page in a real browser: a server over sample data, tabs of it, and all that a tab complains about."""

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

pytest.importorskip("playwright", reason="the tests of the page need Playwright: pip install playwright")

from browsers import FLAGS, find_browser
from playwright.sync_api import Browser, expect, sync_playwright
from tabs import WAIT_MS, OpenTab, Tab, log_in, watch

import memorist
from memorist.engine.sample import add_sample_history
from node_packages import find_node
from web_server import TOKEN, WebServer, web_server

GUIDE = """# Runbook

## Deploying

Run make ship on the release branch and watch the dashboard.

## Rolling back

A rollback takes four minutes: choose the last green build and press revert.
"""


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A browser without any state of its own."""
    program = find_browser()
    folder = tmp_path_factory.mktemp("browser")
    environ = {**os.environ, **program.environ, "HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}
    expect.set_options(timeout=WAIT_MS)
    # Playwright's own Node needs a library that a minimal system does not have.
    os.environ.setdefault("PLAYWRIGHT_NODEJS_PATH", find_node()[0][0])
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program.path, args=list(FLAGS), env=environ)
        yield started
        started.close()


@pytest.fixture(scope="session")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with the sample, a document, and vectors. To be copied."""
    folder = tmp_path_factory.mktemp("sample")
    (folder / "runbook.md").write_text(GUIDE, encoding="utf-8")
    with memorist.open(folder / "memory.db") as memory:
        add_sample_history(memory)
        memory.documents.index([folder / "runbook.md"], project="shop")
    return folder / "memory.db"


@pytest.fixture(scope="module")
def site(sample: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebServer]:
    """The server over a copy of the sample, for all tests of a module: each of them changes other memories."""
    target = tmp_path_factory.mktemp("site") / "memory.db"
    shutil.copy(sample, target)
    with web_server(target, embedder="local") as running:
        yield running


@pytest.fixture(scope="module")
def site_memory(site: WebServer) -> Iterator[Any]:
    """The memory behind the site, for what a test has to know or to change behind the page's back."""
    with memorist.connect(site.url, token=TOKEN) as connected:
        yield connected


@pytest.fixture
def open_tab(browser: Browser) -> OpenTab:
    """Opens a tab that is logged in; what its console, its scripts or its dialogs complain about fails the test."""

    @contextmanager
    def open_one(server: WebServer, route: str = "", *, strict: bool = True, **options: Any) -> Iterator[Tab]:
        context = browser.new_context(
            **{"viewport": {"width": 1280, "height": 900}, "reduced_motion": "reduce"} | options
        )
        context.set_default_timeout(WAIT_MS)
        try:
            log_in(context, server)
            tab = Tab(context.new_page(), server)
            watch(tab)
            tab.open(route)
            yield tab
            if strict:
                assert tab.problems == []
        finally:
            context.close()

    return open_one


@pytest.fixture
def tab(site: WebServer, open_tab: OpenTab) -> Iterator[Tab]:
    """A tab on the site."""
    with open_tab(site) as opened:
        yield opened
