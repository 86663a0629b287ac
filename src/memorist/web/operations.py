"""The operations of the API: those of a memory and its rooms, and calls about the server that only its page makes."""

import builtins
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from memorist.contract import Operation, list_operations, operation
from memorist.embed.onnx_models import OPTIONAL_MODELS
from memorist.engine.memory import ROOMS, Memorist
from memorist.engine.room import Room
from memorist.engine.sample import add_sample_history
from memorist.evaluate.report import list_runs
from memorist.profiles import PROFILES
from memorist.reports import ImportReport
from memorist.views import EvalRun, ModelInfo, ProfileInfo


class Access(Struct, frozen=True):
    """The rights of a token, and what it is used on."""

    version: str
    namespace: str
    project: str | None
    read_only: bool


class SettingsAnswer(Struct, frozen=True):
    """The settings that hold, and where each that is not a default comes from."""

    settings: Mapping[str, Any]
    origins: Mapping[str, str]


class ServerContext(Struct, frozen=True):
    """The rights of the caller, the settings of the server, and where its evaluations are kept."""

    access: Access
    settings: SettingsAnswer
    eval_cache: Path


class ServerCalls(Room):
    """A server as its page sees it; of a memory that `memorist.connect` gave, it needs no context."""

    _name = "server"

    def __init__(self, memory: Memorist, context: ServerContext | None = None) -> None:
        super().__init__(memory._backend)
        self._memory = memory
        if context is not None:
            self._context = context

    @operation("GET /access", one_project=True)
    def access(self) -> Access:
        """Return the rights of the token in use."""
        return self._context.access

    @operation("GET /settings", machine=True)
    def settings(self) -> SettingsAnswer:
        """Return the settings that hold, without secrets."""
        return self._context.settings

    @operation("GET /eval-runs", machine=True)
    def eval_runs(self) -> builtins.list[EvalRun]:
        """List saved runs of `memorist eval`, the earliest first."""
        return list_runs(self._context.eval_cache)

    @operation("GET /profiles")
    def profiles(self) -> builtins.list[ProfileInfo]:
        """List the ranking profiles and their options."""
        return [
            ProfileInfo(name, {name: value for name, value in asdict(profile).items() if name != "name"})
            for name, profile in PROFILES.items()
        ]

    @operation("GET /models")
    def models(self) -> builtins.list[ModelInfo]:
        """List the bundled model and the optional ones, and tell which one is in use."""
        active = self._resources.model.name or ""
        bundled = ModelInfo("bundled", "turns text into vectors", "Apache-2.0", True, active.startswith("local:"))
        optional = [
            ModelInfo(model.name, model.description, model.licence, model.find() is not None, model.name in active)
            for model in OPTIONAL_MODELS.values()
        ]
        return [bundled, *optional]

    @operation("POST /import:sample")
    def import_sample(self) -> ImportReport:
        """Remember a few things about an invented project."""
        return add_sample_history(self._memory)


OPERATIONS: tuple[Operation, ...] = list_operations(*ROOMS, ServerCalls)
