"""Tabs of the page in a browser, with everything that went wrong in them."""

import json
import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from playwright.sync_api import BrowserContext, ConsoleMessage, Page, expect

from timeouts import MAX_WAIT_SECONDS
from web_server import TOKEN, WebServer

WAIT_MS = MAX_WAIT_SECONDS * 1000


@dataclass
class Tab:
    """A tab of the page, with everything that went wrong in it."""

    page: Page
    server: WebServer
    problems: list[str] = field(default_factory=list)

    def open(self, route: str = "") -> None:
        """Go to a view and wait until it is there."""
        self.page.goto(f"{self.server.url}/{route}")
        view = re.match(r"#/([^/?]*)", route)
        expect(self.page.locator("main")).to_have_attribute("data-view", view[1] if view else "search")

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def heading(self, name: str) -> None:
        """Wait for a view by its heading."""
        expect(self.page.get_by_role("heading", name=name, level=1)).to_be_visible()


OpenTab = Callable[..., AbstractContextManager[Tab]]


def log_in(context: BrowserContext, server: WebServer) -> None:
    """Exchange the token for the cookie, as the page does."""
    headers = {"Origin": server.url, "Content-Type": "application/json"}
    answer = context.request.post(f"{server.url}/login", data=json.dumps({"token": TOKEN}), headers=headers)
    assert answer.ok, answer.text()


def watch(tab: Tab) -> None:
    """Note errors of scripts, complaints of the console (among them violations of the CSP), and dialogs."""
    page = tab.page

    def note_dialog(dialog: Any) -> None:
        tab.problems.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    page.on("dialog", note_dialog)
    page.on("pageerror", lambda error: tab.problems.append(f"error: {error}"))
    page.on("console", lambda said: tab.problems.append(f"console: {said.text}") if is_complaint(said) else None)
    page.on(
        "response",
        lambda answer: tab.problems.append(f"{answer.status}: {answer.url}") if answer.status >= 500 else None,
    )


def is_complaint(said: ConsoleMessage) -> bool:
    """Return whether a line of the console is a problem: that the server refused something may be meant."""
    return said.type in ("error", "warning") and "Failed to load resource" not in said.text
