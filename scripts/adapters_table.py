"""
Print what the framework suites gave: framework, version, suite, tests passed of how many, and why others were skipped.

Called by scripts/test-adapters, which leaves the report of each framework in .venv-adapters/.
"""

import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

ENVIRONMENTS = Path(__file__).parents[1] / ".venv-adapters"
PACKAGES = {
    "agent-framework": "agent-framework-core",
    "google-adk": "google-adk",
    "haystack": "haystack-ai",
    "langchain": "langchain-core",
    "langgraph": "langgraph-checkpoint",
    "llama-index": "llama-index-core",
    "openai-agents": "openai-agents",
    "pydantic-ai": "pydantic-ai-slim",
    "strands": "strands-agents",
}


@dataclass
class Suite:
    """The results of one file of tests."""

    passed: int = 0
    failed: int = 0
    skipped: Counter[str] = field(default_factory=Counter)

    @property
    def total(self) -> int:
        return self.passed + self.failed + self.skipped.total()


def read_report(path: Path) -> dict[str, Suite]:
    """Return the suites of a JUnit report, by the name of their file."""
    suites: dict[str, Suite] = {}
    for case in ElementTree.parse(path).iter("testcase"):
        name = next(part for part in case.get("classname", "").split(".") if part.startswith("test_"))
        suite = suites.setdefault(name, Suite())
        skip = case.find("skipped")
        if case.find("failure") is not None or case.find("error") is not None:
            suite.failed += 1
        elif skip is not None:
            suite.skipped[skip.get("message", "")] += 1
        else:
            suite.passed += 1
    return suites


def find_version(framework: str) -> str:
    folder = ENVIRONMENTS / framework
    python = next(path for path in (folder / "bin/python", folder / "Scripts/python.exe") if path.exists())
    code = "import importlib.metadata, sys; print(importlib.metadata.version(sys.argv[1]))"
    command = [str(python), "-c", code, PACKAGES[framework]]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def main(frameworks: list[str]) -> None:
    print("| framework | version | suite | passed | skipped |")
    print("|---|---|---|---|---|")
    for framework in frameworks:
        version = f"{PACKAGES[framework]} {find_version(framework)}"
        for name, suite in sorted(read_report(ENVIRONMENTS / f"{framework}.xml").items()):
            reasons = "; ".join(f"{count}: {reason}" for reason, count in suite.skipped.items())
            print(f"| {framework} | {version} | {name} | {suite.passed} of {suite.total} | {reasons} |")


if __name__ == "__main__":
    main(sys.argv[1:])
