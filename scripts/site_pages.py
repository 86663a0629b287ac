"""
Hooks for MkDocs: pages that live in the root of the repository, and links as GitHub resolves them.

The README is the first page of the site, and ARCHITECTURE.md and its neighbours are pages of it, too. A link from one
file of the repository to another leads to that file's page. If it has none, it leads to the repository online.
"""

import posixpath
import re
import tomllib
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
ROOT_PAGES = {  # file in the root: page of the site
    "README.md": "index.md",
    "ARCHITECTURE.md": "architecture.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
}
_PAGE_FILES = {page: file for file, page in ROOT_PAGES.items()}
_LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)\s#]+)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not in the folder of the documentation."""
    for name, page in ROOT_PAGES.items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / name)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn links relative to a file of the repository into links that the site has."""
    uri = page.file.src_uri
    file = _PAGE_FILES.get(uri, f"docs/{uri}")
    return _LINK.sub(lambda link: resolve_link(link[1], file), markdown)


def resolve_link(link: str, file: str) -> str:
    """Return where a link leads that stands in a file of the repository; every page is in the root of the site."""
    target = posixpath.normpath(posixpath.join(posixpath.dirname(file), link))
    if target in ROOT_PAGES:
        return ROOT_PAGES[target]
    if target.startswith("docs/"):
        return target.removeprefix("docs/")
    if not (ROOT / target).exists():
        return link  # MkDocs reports it
    return f"{_repository()}/{'tree' if (ROOT / target).is_dir() else 'blob'}/main/{target}"


def _repository() -> str:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    source: str = project["urls"]["Source"]
    return source
