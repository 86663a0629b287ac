"""pyproject.toml, the workflow of GitHub Actions and server.json agree with each other."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
WORKFLOW = ROOT / ".github" / "workflows" / "test.yml"
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
PROJECT = PYPROJECT["project"]
REGISTRY_ENTRY = json.loads((ROOT / "server.json").read_text("utf-8"))
(JOB,) = yaml.safe_load(WORKFLOW.read_text("utf-8"))["jobs"].values()


def supported_pythons() -> list[str]:
    named = (re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", line) for line in PROJECT["classifiers"])
    return [match[1] for match in named if match]


def test_the_classifiers_begin_with_the_oldest_python_and_leave_none_out() -> None:
    minors = [int(version.partition(".")[2]) for version in supported_pythons()]

    assert PROJECT["requires-python"] == f">=3.{minors[0]}"
    assert minors == list(range(minors[0], minors[-1] + 1))


def test_the_workflow_fits_the_schema_of_github() -> None:
    check = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows", str(WORKFLOW)]

    checked = subprocess.run(check, capture_output=True, text=True, check=False)

    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_the_workflow_tests_every_python_on_every_system() -> None:
    matrix = JOB["strategy"]["matrix"]

    assert matrix["python"] == supported_pythons()
    assert {name.partition("-")[0] for name in matrix["os"]} == {"ubuntu", "macos", "windows"}


def test_the_workflow_runs_the_script_that_people_run() -> None:
    assert [step["run"] for step in JOB["steps"] if "run" in step] == ["scripts/test"]
    assert JOB["defaults"]["run"]["shell"] == "bash"


def test_the_workflow_pins_its_actions_to_a_major_version() -> None:
    assert all(re.fullmatch(r"actions/[\w-]+@v\d+", step["uses"]) for step in JOB["steps"] if "uses" in step)


def test_package_and_registry_have_one_description() -> None:
    assert PROJECT["description"] == REGISTRY_ENTRY["description"]


def test_every_url_is_in_the_repository_that_server_json_names() -> None:
    owner, _, name = REGISTRY_ENTRY["name"].partition("/")
    repository = f"https://github.com/{owner.removeprefix('io.github.')}/{name}"

    assert PROJECT["urls"]["Source"] == repository
    assert all(url.startswith(repository) for url in PROJECT["urls"].values())


def test_development_dependencies_are_not_published() -> None:
    assert "dev" not in PROJECT["optional-dependencies"]
    assert any(line.startswith("pytest") for line in PYPROJECT["dependency-groups"]["dev"])


def test_the_extra_all_is_every_other_extra_but_the_frameworks() -> None:
    frameworks = {name.removeprefix("test-") for name in PYPROJECT["dependency-groups"] if name.startswith("test-")}
    extras = set(PROJECT["optional-dependencies"]) - {"all"} - frameworks
    (line,) = PROJECT["optional-dependencies"]["all"]

    assert line.startswith("memorist[")
    assert set(re.findall(r"\w+", line)[1:]) == extras
