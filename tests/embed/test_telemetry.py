"""The runtime of the local models reports to its maker by default; here it does not."""

import os
import subprocess
import sys
from pathlib import Path

# With these the runtime would stay silent by itself.
SILENCING = ("CI", "GITHUB_ACTIONS", "TF_BUILD", "CIRCLECI", "ORT_DISABLE_TELEMETRY")
USE = "import memorist\nwith memorist.open(':memory:') as m: m.add('the ferry leaves at nine'); m.search('boats')"


def test_embedding_leaves_no_file_of_the_runtime(tmp_path: Path) -> None:
    own = {name: value for name, value in os.environ.items() if name not in SILENCING}
    homes = {name: str(tmp_path) for name in ("HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "LOCALAPPDATA")}

    subprocess.run([sys.executable, "-c", USE], env=own | homes, check=True)

    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
