"""
Take the pictures of the page in docs/images: the sample data in a temporary database, in a headless browser.

Needs Playwright (in the developers' environment) and Chromium: apt-get install chromium, or name one in CHROMIUM.
The pictures look best with the font Inter installed (apt-get install fonts-inter).
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Browser, Page, expect, sync_playwright

import memorist
from memorist.engine.sample import add_sample_history

IMAGES = Path(__file__).parents[1] / "docs" / "images"
TOKEN = "a-token-for-pictures-only"
MAX_BYTES = 200_000
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
WIDE, NARROW = (1280, 800), (360, 740)


@dataclass(frozen=True)
class Picture:
    """A picture: its name, the view it shows, and what is done there first."""

    name: str
    route: str
    scheme: str = "light"
    size: tuple[int, int] = WIDE
    clicks: tuple[str, ...] = ()


def main() -> None:
    program = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        sys.exit("no Chromium was found: apt-get install chromium, or name one in CHROMIUM")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        pictures = prepare(Path(folder))
        with serve(Path(folder) / "memory.db") as url:
            browser = playwright.chromium.launch(executable_path=program, args=list(FLAGS))
            for picture in pictures:
                take(browser, url, picture)
            browser.close()


def prepare(folder: Path) -> list[Picture]:
    """Fill a database with the sample and a document, and return the pictures to take of it."""
    shutil.copy(IMAGES.parent / "lifecycle.md", folder / "lifecycle.md")
    with memorist.open(folder / "memory.db") as memory:
        add_sample_history(memory)
        memory.documents.index([folder / "lifecycle.md"], project="docs")
        ids = {one.content.split()[0]: one.id for one in memory.list(limit=200)}
        document = memory.documents.list()[0].id
        turn = next(one for one in memory.list(kind="turn", limit=50) if "newsletter" in one.content)
    with memorist.open(folder / "memory.db", surface="hook") as memory:
        for question in ("which payment contract changed?", "what is the rate limit for each key?"):
            memory.context(question, core=False, documents=False)
    return [
        Picture("page-search", "#/search?q=who%20owns%20the%20payment%20contract"),
        Picture("page-search-dark", "#/search?q=rate%20limit%20of%20the%20API", "dark"),
        Picture("page-search-narrow", "#/search?q=rate%20limit", size=NARROW),
        Picture("page-compare", "#/search?q=rate%20limit%20for%20each%20key&other=rank"),
        Picture("page-timeline", "#/timeline"),
        Picture("page-memory", f"#/memory/{ids['Tom']}"),
        Picture("page-history", f"#/memory/{ids['Feature']}", clicks=("#tab-history",)),
        Picture("page-conversation", f"#/conversation/jsonl%3Acheckout-timeouts?turn={turn.id}"),
        Picture("page-document", f"#/document/{document}?line=17&end=27"),
        Picture("page-review", "#/review", clicks=("#tab-contradictions",)),
        Picture("page-recalls", "#/recalls", clicks=("li.recall .link-button",)),
        Picture("page-graph", f"#/graph/{ids['Tom']}", "dark"),
        Picture("page-insights", "#/insights"),
    ]


@contextmanager
def serve(database: Path) -> Iterator[str]:
    """Run the server on a free port, and give its address."""
    environ = {**os.environ, "MEMORIST_HTTP_TOKEN": TOKEN}
    log = database.parent / "log"
    with log.open("w") as errors:
        command = [sys.executable, "-m", "memorist", "--db", str(database), "serve", "--port", "0"]
        process = subprocess.Popen(command, stderr=errors, env=environ, cwd=database.parent)
    try:
        deadline = time.monotonic() + 60
        while not (found := re.search(r"(http://\S+?)/login", log.read_text())):
            if process.poll() is not None or time.monotonic() > deadline:
                sys.exit(f"the server did not start: {log.read_text()}")
            time.sleep(0.05)
        yield found[1]
    finally:
        process.terminate()
        process.wait()


def take(browser: Browser, url: str, picture: Picture) -> None:
    """Open a view, wait until all of it is there, and write its picture."""
    width, height = picture.size
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme="dark" if picture.scheme == "dark" else "light",
        device_scale_factor=2 if picture.size == NARROW else 1,
        is_mobile=picture.size == NARROW,
        reduced_motion="reduce",
    )
    context.request.post(f"{url}/login", data={"token": TOKEN}, headers={"Origin": url})
    page = context.new_page()
    page.goto(f"{url}/{picture.route}")
    settle(page)
    for selector in picture.clicks:
        page.click(selector)
        settle(page)
    file = IMAGES / f"{picture.name}.png"
    page.screenshot(path=file)
    context.close()
    size = file.stat().st_size
    print(f"{file.name}: {size / 1000:.0f} kB")
    if size > MAX_BYTES:
        sys.exit(f"{file.name} has {size} bytes, more than {MAX_BYTES}")


def settle(page: Page) -> None:
    """Wait until nothing is loading any more."""
    expect(page.locator("main")).to_be_visible()
    page.wait_for_load_state("load")
    expect(page.locator(".skeleton")).to_have_count(0)
    expect(page.locator(".sidebar-foot")).to_contain_text("memories")
    page.wait_for_timeout(400)  # for fonts and canvases


if __name__ == "__main__":
    main()
