"""The calls behind the operations: each is one call of the engine with the arguments of a request."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from memorist import __version__, validation
from memorist.documents import Document, File, ImportReport
from memorist.engine import Memorist
from memorist.engine.inspection import Inspection
from memorist.engine.project_view import ProjectView
from memorist.engine.review import Review
from memorist.engine.sample_history import add_sample_history
from memorist.errors import InvalidInput, NotFound
from memorist.evaluate.report import list_runs
from memorist.profiles import PROFILES
from memorist.records import (
    Fact,
    Feedback,
    Lens,
    Memories,
    Memory,
    Page,
    Related,
    Relation,
    Results,
    Session,
    SessionContext,
    Timeline,
    Version,
)
from memorist.reports import FILE_PROBLEM, CheckReport
from memorist.views import (
    ChunkPage,
    Comparison,
    DocumentPage,
    EvalRun,
    Graph,
    Growth,
    ModelInfo,
    ProfileInfo,
    RecallPage,
    ReviewPage,
    SessionPage,
)
from memorist.web.answers import Access, Block, Count, Forgotten, Ids, SettingsAnswer, StatsAnswer, Suggestion
from memorist.web.problems import ChangedMeanwhile

_PAGE = 50  # items, unless a limit is given


@dataclass(frozen=True, slots=True)
class CallContext:
    """
    The memory a request is about, as far as its token reaches, and the conditions under which it may be changed.

    `view` is the memory, or the one project of it that a token is for. `check` raises if a memory is no longer what the
    caller has seen. Whoever does not own the machine is told nothing of the file, which holds other namespaces, too.
    """

    memory: Memorist
    view: Memorist | ProjectView
    access: Access
    settings: SettingsAnswer
    eval_cache: Path  # where `memorist eval` saves its runs
    check: Callable[[Memory], object] | None = None
    owns_machine: bool = True
    inspection: Inspection = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "inspection", Inspection(self.memory))


# Search


def search(context: CallContext, query: str, options: Mapping[str, Any] | None = None, **arguments: Any) -> Results:
    return context.view.search(query, **_join_options(arguments, options))


def compare(context: CallContext, query: str, options: Mapping[str, Any] | None = None, **arguments: Any) -> Comparison:
    return context.inspection.compare(query, **_join_options(arguments, options))


def search_documents(
    context: CallContext, query: str, options: Mapping[str, Any] | None = None, **arguments: Any
) -> Results:
    return context.memory.search_documents(query, **_join_options(arguments, options))


def _join_options(arguments: Mapping[str, Any], options: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the arguments of a search with the options of its profile, which may not repeat one of them."""
    repeated = {"query", *arguments}.intersection(options or {})
    if repeated:
        raise InvalidInput(f"{min(repeated)} is no option of a profile; give it beside `options`")
    return {**arguments, **(options or {})}


def facets(context: CallContext, **arguments: Any) -> Mapping[str, Mapping[str, int]]:
    return context.view.facets(**arguments)


def suggest(context: CallContext, query: str) -> Suggestion:
    return Suggestion(context.memory.suggest(query))


def context(context: CallContext, message: str, **arguments: Any) -> Block:
    return Block(context.view.context(message, **arguments))


def briefing(context: CallContext, **arguments: Any) -> Block:
    return Block(context.memory.briefing(**arguments))


def list_lenses(context: CallContext) -> list[Lens]:
    return context.memory.lenses()


def get_lens(context: CallContext, name: str) -> Lens:
    return context.memory.lens(name)


def set_lens(context: CallContext, name: str, filters: Mapping[str, Any] | None = None, **arguments: Any) -> Lens:
    others = {"name", "boosts", "recency", "profile"}.intersection(filters or {})
    if others:
        raise InvalidInput(f"{min(others)} is no filter; give it beside `filters`")
    return context.memory.set_lens(name, **arguments, **filters or {})


def remove_lens(context: CallContext, name: str) -> Forgotten:
    context.memory.remove_lens(name)
    return Forgotten(name)


# Memories


def list_memories(context: CallContext, **arguments: Any) -> Page:
    return context.view.list(**{"limit": _PAGE} | arguments)


def add_memory(context: CallContext, content: str, **fields: Any) -> Memory:
    return context.view.add(content, **fields)


def add_memories(context: CallContext, items: list[Any]) -> Ids:
    return Ids(tuple(context.memory.add_many(items)))


def get_memories(context: CallContext, ids: list[str], as_of: str | None = None) -> Memories:
    return context.view.get(ids, as_of=as_of)


def count(context: CallContext, **arguments: Any) -> Count:
    return Count(context.view.count(**arguments))


def forget_many(context: CallContext, **arguments: Any) -> Count:
    return Count(context.view.forget_many(**arguments))


def purge(context: CallContext, before: str | None = None) -> Count:
    return Count(context.inspection.purge(before, copies=context.owns_machine))


def get_memory(context: CallContext, id: str, as_of: str | None = None) -> Memory:
    if isinstance(context.view, Memorist):
        return context.view.get(id, as_of=as_of)
    found = context.view.get([id], as_of=as_of)
    if not found:
        raise NotFound(f"no memory of project {context.view.project!r} has the id {id!r}")
    return found[0]


def update_memory(context: CallContext, id: str, **changes: Any) -> Memory:
    if isinstance(context.view, ProjectView):
        return context.view.update_if(id, changes, context.check)
    return context.inspection.update(id, changes, context.check)


def forget_memory(context: CallContext, id: str, hard: bool = False) -> Forgotten:
    if isinstance(context.view, ProjectView):
        context.view.forget(id, hard=hard, check=context.check)
    else:
        context.inspection.forget(id, hard, context.check)
    return Forgotten(id)


def history(context: CallContext, id: str) -> list[Version]:
    return context.memory.history(id)


def related(context: CallContext, id: str, **arguments: Any) -> list[Related]:
    return context.memory.related(id, **arguments)


def restore(context: CallContext, id: str) -> Memory:
    return context.memory.restore(id)


def pin(context: CallContext, id: str) -> Memory:
    return context.memory.pin(id)


def unpin(context: CallContext, id: str) -> Memory:
    return context.memory.unpin(id)


def supersede(context: CallContext, id: str, by: str, **arguments: Any) -> Memory:
    return context.view.supersede(id, by, **arguments)


def unsupersede(context: CallContext, id: str) -> Memory:
    return context.memory.unsupersede(id)


def replaced(context: CallContext, id: str) -> list[Memory]:
    return context.memory.replaced(id)


def merge(context: CallContext, id: str, others: list[str]) -> Memory:
    return context.memory.merge(id, others)


def relate(context: CallContext, id: str, target: str, kind: str, **arguments: Any) -> Relation:
    return context.memory.relate(id, target, kind, **arguments)


def unrelate(context: CallContext, id: str, target: str, kind: str) -> Forgotten:
    context.memory.unrelate(id, target, kind)
    return Forgotten(id)


def reinforce(context: CallContext, id: str, **arguments: Any) -> Memory:
    return context.memory.reinforce(id, **arguments)


def deemphasize(context: CallContext, id: str, **arguments: Any) -> Memory:
    return context.memory.deemphasize(id, **arguments)


def feedback(context: CallContext, id: str, good: bool, query: str | None = None) -> Feedback:
    return context.memory.feedback(id, good, query=query)


def list_feedback(context: CallContext, **arguments: Any) -> list[Feedback]:
    return context.memory.feedbacks(**arguments)


def session_context(context: CallContext, id: str) -> SessionContext | None:
    return context.memory.session_context(id)


def list_facts(context: CallContext, id: str) -> list[Fact]:
    return list(context.memory.get(id).facts)


def add_fact(context: CallContext, id: str, **fields: Any) -> Fact:
    return context.memory.add_fact(id, fields.pop("text"), **fields)


def remove_fact(context: CallContext, id: str) -> Fact:
    return context.memory.remove_fact(id)


def reinforce_fact(context: CallContext, id: str, **arguments: Any) -> Fact:
    return context.memory.reinforce_fact(id, **arguments)


# Looking around


def timeline(context: CallContext, **arguments: Any) -> Timeline:
    return context.view.timeline(**arguments)


def duplicates(context: CallContext, **arguments: Any) -> list[tuple[Memory, ...]]:
    return context.memory.duplicates(**arguments)


def review(
    context: CallContext, kind: str, limit: int = _PAGE, cursor: str | None = None, project: str | None = None
) -> ReviewPage:
    return Review(context.memory).list_items(kind, limit, cursor, project)


def graph(context: CallContext, memory: str, hops: int = 2, limit: int = 8) -> Graph:
    return context.inspection.graph(memory, hops, limit)


def growth(context: CallContext, since: str | None = None) -> Growth:
    return context.inspection.growth(since)


def list_eval_runs(context: CallContext) -> list[EvalRun]:
    return list_runs(context.eval_cache)


def list_recalls(
    context: CallContext,
    memory: str | None = None,
    session: str | None = None,
    since: str | None = None,
    limit: int = _PAGE,
    cursor: str | None = None,
) -> RecallPage:
    return context.inspection.list_recalls(memory, session, since, limit, cursor)


def clear_recalls(context: CallContext, before: str | None = None) -> Count:
    return Count(context.memory.clear_recalls(before=before))


# Sessions


def list_sessions(
    context: CallContext,
    project: str | None = None,
    active: bool | None = None,
    deleted: bool = False,
    limit: int = _PAGE,
    cursor: str | None = None,
) -> SessionPage:
    return context.inspection.list_sessions(project, active, deleted, limit, cursor)


def start_session(context: CallContext, **arguments: Any) -> Session:
    return context.memory.start_session(**arguments)


def get_session(context: CallContext, id: str) -> Session:
    return context.memory.session(id)


def summarise_session(context: CallContext, id: str, summary: str | None) -> Session:
    return context.memory.summarise_session(id, summary)


def forget_session(context: CallContext, id: str, hard: bool = False) -> Session:
    return context.memory.forget_session(id, hard=hard)


def restore_session(context: CallContext, id: str) -> Session:
    return context.memory.restore_session(id)


def end_session(context: CallContext, id: str, summary: str | None = None) -> Session:
    return context.memory.end_session(id, summary)


def list_turns(context: CallContext, id: str, limit: int = _PAGE, cursor: str | None = None) -> Page:
    return context.inspection.list_turns(id, limit, cursor)


def add_turn(context: CallContext, id: str, turn: str | None = None, **arguments: Any) -> Memory:
    role, text = arguments.pop("role"), arguments.pop("text")
    allow = validation.literal_allowances(arguments.pop("allow", ()), "allow")
    return context.memory.add_turn(role, text, conversation=id, id=turn, allow=allow, **arguments)


# Files


def list_documents(
    context: CallContext, project: str | None = None, limit: int = _PAGE, cursor: str | None = None
) -> DocumentPage:
    return context.inspection.list_documents(project, limit, cursor)


def get_document(context: CallContext, id: str) -> Document:
    return context.inspection.document(id)


def list_chunks(context: CallContext, id: str, limit: int = _PAGE, cursor: str | None = None) -> ChunkPage:
    return context.inspection.list_chunks(id, limit, cursor)


def find_document(context: CallContext, path: str) -> Document:
    return context.inspection.find_document(path)


def unindex(context: CallContext, path: str) -> Count:
    return Count(context.inspection.unindex(path))


def list_files(context: CallContext, **arguments: Any) -> list[File]:
    return context.memory.files(**arguments)


def create_file(context: CallContext, path: str, text: str, project: str | None = None) -> File:
    return context.memory.create_file(path, text, project=project)


def edit_file(context: CallContext, path: str, text: str, before: str, project: str | None = None) -> File:
    def change(current: str) -> str:
        if current != before:
            raise ChangedMeanwhile(f"{path} has been changed since it was read; read it again")
        return text

    return context.memory.edit_file(path, change, project=project)


def move_files(context: CallContext, path: str, to: str, project: str | None = None) -> Count:
    return Count(context.memory.move_files(path, to, project=project))


def forget_files(context: CallContext, path: str, project: str | None = None) -> Count:
    return Count(context.memory.forget_files(path, project=project))


# Upkeep


def import_sample(context: CallContext) -> ImportReport:
    return add_sample_history(context.memory)


def stats(context: CallContext) -> StatsAnswer:
    found = context.memory.stats()
    if not context.owns_machine:
        found = replace(found, path=None, size_bytes=None)
    return StatsAnswer(found, context.memory.recalls_lost)


def check(context: CallContext) -> CheckReport:
    return _report_check(context, repair=False)


def repair(context: CallContext) -> CheckReport:
    return _report_check(context, repair=True)


def _report_check(context: CallContext, *, repair: bool) -> CheckReport:
    report = context.memory.check(repair=repair)
    if context.owns_machine:
        return report
    problems, repaired = map(_summarize_file_problems, (report.problems, report.repaired))
    return replace(report, problems=problems, repaired=repaired)


def _summarize_file_problems(problems: Sequence[str]) -> tuple[str, ...]:
    """Return problems of a namespace as they are, and for all of the file that it is in, one line."""
    summary = f"{FILE_PROBLEM} it is damaged; whoever runs the server can see where, with `memorist check`"
    return tuple(dict.fromkeys(summary if one.startswith(FILE_PROBLEM) else one for one in problems))


def list_models(context: CallContext) -> list[ModelInfo]:
    return context.inspection.list_models()


def list_profiles(context: CallContext) -> list[ProfileInfo]:
    return [
        ProfileInfo(name, {each.name: getattr(profile, each.name) for each in fields(profile) if each.name != "name"})
        for name, profile in PROFILES.items()
    ]


def settings(context: CallContext) -> SettingsAnswer:
    return context.settings


def access(context: CallContext) -> Access:
    return context.access


def describe_access(namespace: str, project: str | None, read_only: bool) -> Access:
    """Return what a token may do."""
    return Access(__version__, namespace, project, read_only)
