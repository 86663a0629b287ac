"""The public names are a decision, never an accident; and asking for help imports nothing heavy."""

import subprocess
import sys

import memorist


def test_every_public_name_can_be_imported() -> None:
    assert all(getattr(memorist, name) is not None for name in memorist.__all__)
    assert memorist.__all__ == sorted(memorist.__all__)


def test_a_name_that_is_not_public_is_an_attribute_error() -> None:
    assert not hasattr(memorist, "Store")


def test_help_and_import_load_none_of_the_heavy_packages() -> None:
    code = (
        "import sys, memorist\n"
        "from memorist.cli.app import app\n"
        "app.main(['--help'], standalone_mode=False)\n"
        "heavy = {'numpy', 'onnxruntime', 'tokenizers', 'apsw', 'simsimd'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
