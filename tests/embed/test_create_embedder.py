"""create_embedder(): from a setting to an embedder."""

import subprocess
import sys
import types

import pytest

from memorist.embed import create_embedder
from memorist.embed.remote import OllamaEmbedder, OpenAIEmbedder
from memorist.errors import ConfigError


class Own:
    model_id, dimensions = "own", 2

    def embed(self, texts):
        return [[1.0, 0.0] for _ in texts]


class Shy(Own):
    @property
    def dimensions(self):
        pytest.fail("reading the dimensions may call a server")


@pytest.fixture
def local(monkeypatch):
    """A stand-in for the bundled model, which tells the threads it was given."""
    module = types.ModuleType("memorist.embed.local")
    module.LocalEmbedder = lambda *, threads=None: ("local", threads)
    monkeypatch.setitem(sys.modules, "memorist.embed.local", module)


@pytest.mark.parametrize("spec", [None, "local", " local "])
def test_the_bundled_model_is_the_default(local, spec):
    assert create_embedder(spec) == ("local", None)
    assert create_embedder(spec, threads=3) == ("local", 3)


def test_none_means_no_embedder():
    assert create_embedder("none") is None


def test_a_provider_and_a_model_name_a_remote_embedder():
    openai, ollama = create_embedder("openai:text-embedding-3-small"), create_embedder("ollama:qwen3-embedding:0.6b")

    assert isinstance(openai, OpenAIEmbedder)
    assert isinstance(ollama, OllamaEmbedder)
    assert openai.model_id == "openai:text-embedding-3-small"
    assert ollama.model_id == "ollama:qwen3-embedding:0.6b"


@pytest.mark.parametrize("kind", [Own, Shy])
def test_an_embedder_of_ones_own_is_returned_as_it_is(kind):
    own = kind()

    assert create_embedder(own) is own


@pytest.mark.parametrize("spec", ["", "Local", "local:", "local:bge-large", "cohere:x", "text-embedding-3-small"])
def test_anything_else_is_refused_with_the_forms_that_are_not(spec):
    with pytest.raises(ConfigError, match="'local', 'none', 'onnx:FOLDER', 'openai:MODEL', 'ollama:MODEL'"):
        create_embedder(spec)


@pytest.mark.parametrize("spec", ["openai:", "openai", "ollama: "])
def test_a_provider_without_a_model_is_refused_with_an_example(spec):
    with pytest.raises(ConfigError, match=r"names no model: write (openai:MODEL|ollama:MODEL), as in '\w+:[\w-]+'"):
        create_embedder(spec)


def test_an_object_that_lacks_something_is_refused_by_what_it_lacks():
    with pytest.raises(ConfigError, match="SimpleNamespace has no dimensions;"):
        create_embedder(types.SimpleNamespace(model_id="x", embed=len))
    with pytest.raises(ConfigError, match="int has no model_id and no dimensions and no embed;"):
        create_embedder(7)
    with pytest.raises(ConfigError, match="embed cannot be called"):
        create_embedder(types.SimpleNamespace(model_id="x", dimensions=2, embed=None))


def test_a_class_in_place_of_an_object_is_refused():
    with pytest.raises(ConfigError, match="the class Own: pass an object"):
        create_embedder(Own)


def test_importing_the_package_loads_no_model_and_no_http():
    code = (
        "import sys, memorist.embed; "
        "print([m for m in ('numpy', 'onnxruntime', 'http.client', 'memorist.embed.remote') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert out.stdout.strip() == "[]"
