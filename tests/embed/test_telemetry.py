"""The runtime of the local models reports to its maker by default; here it does not."""

import ast
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SWITCH = "ORT_DISABLE_TELEMETRY"
# With these the runtime would stay silent by itself.
SILENCING = ("CI", "GITHUB_ACTIONS", "TF_BUILD", "CIRCLECI", SWITCH)
USE = "import memorist\nwith memorist.open(':memory:') as m: m.add('the ferry leaves at nine'); m.search('boats')"


def test_embedding_leaves_no_file_of_the_runtime(tmp_path: Path) -> None:
    own = {name: value for name, value in os.environ.items() if name not in SILENCING}
    homes = {name: str(tmp_path) for name in ("HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "LOCALAPPDATA")}

    subprocess.run([sys.executable, "-c", USE], env=own | homes, check=True)

    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_nothing_imports_the_runtime_with_its_telemetry_on() -> None:
    imports = {}
    for folder in ("src", "models", "bench", "scripts"):
        for file in (ROOT / folder).rglob("*.py"):
            text = file.read_text("utf-8")
            if lines := [node.lineno for node in ast.walk(ast.parse(text)) if imports_runtime(node)]:
                imports[file.relative_to(ROOT).as_posix()] = SWITCH in "\n".join(text.splitlines()[: lines[0]])

    files = ("src/memorist/embed/onnx_models.py", "scripts/build_model.py", "bench/new_process.py")
    assert imports == dict.fromkeys(files, True)


def test_a_child_of_the_program_inherits_the_switch() -> None:
    child = f"import os; print(os.environ['{SWITCH}'])"
    code = f"{USE}\nimport subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    own = {name: value for name, value in os.environ.items() if name not in SILENCING}

    done = subprocess.run([sys.executable, "-c", code], env=own, capture_output=True, text=True, check=True)

    assert done.stdout == "1\n"


def imports_runtime(node: ast.AST) -> bool:
    names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
    names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
    return any(name.partition(".")[0] == "onnxruntime" for name in names)
