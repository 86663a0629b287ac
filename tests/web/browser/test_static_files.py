"""The files of the page: vendored code is what it is said to be, and nothing of ours can turn text into markup."""

import hashlib
import json
import re
from pathlib import Path

STATIC = Path(__file__).parents[3] / "src" / "memorist" / "web" / "static"
OURS = sorted(STATIC.glob("js/**/*.js"))
VERSIONS = json.loads((STATIC / "vendor" / "versions.json").read_text(encoding="utf-8"))


def test_every_vendored_file_is_listed_with_its_hash() -> None:
    listed = {name: entry["sha256"] for name, entry in VERSIONS["files"].items()}
    files = [file for file in (STATIC / "vendor").iterdir() if file.suffix in (".js", ".css")]

    assert {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files} == listed


def test_every_vendored_package_is_in_the_notice_with_its_licence() -> None:
    notice = (STATIC.parents[3] / "NOTICE").read_text(encoding="utf-8").lower()
    licences = (STATIC / "vendor" / "LICENSES.txt").read_text(encoding="utf-8")
    packages = {package.rpartition("@")[0] for entry in VERSIONS["files"].values() for package in entry["packages"]}

    assert [name for name in packages if not re.search(rf"\b{re.escape(name)}\b", notice)] == []
    assert [name for name in packages if f"{name}\n---" not in licences] == []


def test_the_libraries_stay_small() -> None:
    assert sum(file.stat().st_size for file in (STATIC / "vendor").glob("*.js")) < 140_000


def test_no_module_turns_text_into_markup_or_code() -> None:
    sinks = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|srcdoc|javascript:"

    assert [(file.name, found) for file in OURS if (found := re.findall(sinks, file.read_text(encoding="utf-8")))] == []


def test_every_import_leads_to_a_file() -> None:
    named = r"""(?:from|import\()\s*["']([^"']+)["']"""
    targets = [(file, target) for file in OURS for target in re.findall(named, file.read_text(encoding="utf-8"))]

    assert len(targets) > 100
    assert [(file.name, target) for file, target in targets if not (file.parent / target).is_file()] == []


def test_the_page_has_no_inline_script_or_style() -> None:
    text = (STATIC / "index.html").read_text(encoding="utf-8")

    assert re.findall(r"<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=)", text) == []
    assert [href for href in re.findall(r'(?:href|src)="([^"]+)"', text) if not (STATIC / href).is_file()] == []
