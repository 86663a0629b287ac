"""
Folders that all tests of a machine share, such as what is fetched or unpacked: each is made once, and made whole.

Whoever comes first makes it in a scratch folder beside it, which is then renamed; others wait for that. A process that
is killed leaves no lock, for the system frees it, and no folder that others take for whole: the next one removes its
scratch folder and begins anew.
"""

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from memorist.atomic_file import lock_file

_PART = ".part-"


def cached_folder(name: str, version: str) -> Path:
    """Return the folder for something that is kept for the next run."""
    return Path(tempfile.gettempdir()) / f"memorist-kept-{name.replace('@', '').replace('/', '-')}-{version}"


def make_once(folder: Path, make: Callable[[Path], None]) -> Path:
    """Return a folder, filled by `make` if it is not there yet."""
    if folder.exists():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f"{folder.name}.lock").open("ab") as lock:
        lock_file(lock, wait=True)
        if not folder.exists():
            for left in folder.parent.glob(f"{folder.name}{_PART}*"):  # nobody works on it: this one has the lock
                shutil.rmtree(left, ignore_errors=True)
            scratch = Path(tempfile.mkdtemp(prefix=f"{folder.name}{_PART}", dir=folder.parent))
            try:
                make(scratch)
                os.rename(scratch, folder)
            finally:
                shutil.rmtree(scratch, ignore_errors=True)
    return folder
