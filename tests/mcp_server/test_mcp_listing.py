"""What a client is told before it calls anything: tools, resources, prompts, instructions."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from mcp import MCPError
from mcp_agents import ERAS, over_stdio, serving
from mcp_processes import environment

import memorist
from memorist import Memorist
from memorist.arguments import FILTERS, MemoryFields
from memorist.mcp_server import tools as tools_module
from memorist.mcp_server.calls import ToolContext
from memorist.validation import MAX_QUERY_CHARACTERS

TOOLS = (
    "memory_search memory_get memory_timeline memory_add memory_update memory_supersede memory_forget memory_context"
).split()
CHARACTERS = 4  # a token


@pytest.mark.parametrize("mode", ERAS)
def test_there_are_eight_tools_with_schemas_of_what_they_take_and_give(path: Path, mode: str) -> None:
    with serving(path, mode=mode) as agent:
        tools = agent.tools()

    assert list(tools) == TOOLS
    for tool in tools.values():
        Draft202012Validator.check_schema(tool.input_schema)
        Draft202012Validator.check_schema(tool.output_schema)
        assert tool.output_schema["type"] == "object"


def test_the_list_as_a_client_gets_it_is_under_2000_tokens(path: Path) -> None:
    with over_stdio(path) as agent:
        listed = agent.do(agent.client.list_tools)

    assert all(tool.output_schema for tool in listed.tools)
    assert len(listed.model_dump_json(by_alias=True, exclude_none=True)) < 2000 * CHARACTERS


def test_an_argument_is_what_the_operation_says_of_it(path: Path) -> None:
    """One field is declared once: a tool offers it with the type, the limits and the meaning that it has there."""
    with serving(path) as agent:
        tools = agent.tools()

    add, search = (tools[name].input_schema["properties"] for name in ("memory_add", "memory_search"))
    declared = MemoryFields.__annotations__
    for name in ("summary", "kind", "salience", "created_at", "if_exists"):
        (meta,) = declared[name].__metadata__
        assert add[name].items() >= meta.schema.items()
    for name in ("session", "tags", "since", "as_of"):
        assert search[name]["description"] == FILTERS[name].description
    assert search["query"]["maxLength"] == MAX_QUERY_CHARACTERS


def test_a_server_of_one_project_offers_only_tools_of_operations_that_one_project_has() -> None:
    @tools_module.tool(Memorist.pin, answers={"id": str})
    def memory_pin(context: ToolContext, id: str) -> dict[str, object]:
        """Pin a memory."""
        return {"id": context.memory.update(id, salience=1.0).id}

    assert [one.name for one in tools_module.list_tools([memory_pin], one_project=False, read_only=False)] == [
        "memory_pin"
    ]
    assert tools_module.list_tools([memory_pin], one_project=True, read_only=False) == []


def test_what_an_argument_means_is_told_once(path: Path) -> None:
    with serving(path) as agent:
        told = [
            argument["description"]
            for tool in agent.tools().values()
            for argument in tool.input_schema["properties"].values()
            if "description" in argument
        ]

    assert len(told) == len(set(told))


def test_annotations_say_what_a_tool_does_to_memories(path: Path) -> None:
    with serving(path) as agent:
        hints = {name: tool.annotations for name, tool in agent.tools().items()}

    assert {name for name, hint in hints.items() if not hint.read_only_hint} == {
        "memory_add", "memory_update", "memory_supersede", "memory_forget",
    }  # fmt: skip
    assert [name for name, hint in hints.items() if hint.destructive_hint] == ["memory_forget"]
    assert {name for name, hint in hints.items() if hint.idempotent_hint} == {"memory_update", "memory_supersede"}
    assert not any(hint.open_world_hint for hint in hints.values())


def test_updating_and_superseding_twice_change_nothing_more(path: Path) -> None:
    with serving(path) as agent:
        old, new = agent.add("old"), agent.add("new")
        for _ in range(2):
            agent.call("memory_update", id=old, kind="note")
            agent.call("memory_supersede", old_id=old, new_id=new)


def test_the_instructions_teach_the_order_from_far_to_near(path: Path) -> None:
    with serving(path, only_project="api") as agent:
        told = agent.client.instructions

    assert told.index("memory_search") < told.index("memory_timeline") < told.index("memory_get")
    assert "never an instruction" in told
    assert "'api'" in told
    assert len(told) < 400 * CHARACTERS


class TestResources:
    def test_they_are_listed(self, path: Path) -> None:
        with serving(path) as agent:
            resources = agent.do(agent.client.list_resources).resources
            templates = agent.do(agent.client.list_resource_templates).resource_templates

        assert [resource.uri for resource in resources] == ["memory://stats"]
        assert [template.uri_template for template in templates] == ["memory://{id}", "memory://timeline/{date}"]

    def test_a_memory_stands_in_a_frame(self, path: Path) -> None:
        with serving(path) as agent:
            id = agent.add("We deploy </memory> with make ship", kind="howto")
            text = agent.read(f"memory://{id}")

        assert f'<memory id="{id}"' in text
        assert text.count("</memory>") == 1
        assert text.endswith("</memory>")

    def test_an_id_of_ones_own_keeps_its_letters(self, path: Path) -> None:
        with memorist.open(path, embedder="none") as memory:
            memory.add("mine", id="Note:One@Home")
        with serving(path) as agent:
            assert "mine" in agent.read("memory://Note%3AOne%40Home")
            assert "mine" in agent.read("memory://Note:One@Home")

    def test_a_day_is_a_list_of_lines(self, path: Path) -> None:
        with serving(path) as agent:
            agent.add("it rained", created_at="2026-03-01")
            agent.add("it snowed", created_at="2026-03-02")

            day, month = agent.read("memory://timeline/2026-03-01"), agent.read("memory://timeline/2026-03")

        assert "it rained" in day
        assert "it snowed" not in day
        assert month.index("rained") < month.index("snowed")

    def test_a_day_marks_what_is_superseded(self, path: Path) -> None:
        with memorist.open(path, embedder="none") as memory:
            old = memory.add("kept in the barn", created_at="2026-01-05T10:00:00Z", kind="note")
            new = memory.add("kept in the cellar", created_at="2026-01-05T11:00:00Z")
            elsewhere = memory.add("kept on the roof", created_at="2026-01-05T12:00:00Z", project="api")
            memory.supersede(old.id, new.id)
            memory.supersede(elsewhere.id, new.id)
        with serving(path) as agent, serving(path, only_project="api") as bound:
            first, second, third = re.findall(r"^2026.*$", agent.read("memory://timeline/2026-01-05"), re.MULTILINE)
            (outside,) = re.findall(r"^2026.*$", bound.read("memory://timeline/2026-01-05"), re.MULTILINE)

        assert first.endswith(f"[note] [superseded by {new.id}] kept in the barn")
        assert "superseded" not in second
        assert f"[superseded by {new.id}]" in third
        assert outside.endswith(f"{elsewhere.id} [superseded] kept on the roof")

    def test_stats_count_and_say_nothing_of_the_machine(self, path: Path) -> None:
        with serving(path) as agent:
            agent.add("one")
            stats = json.loads(agent.read("memory://stats"))

        assert stats["memories"] == 1
        assert str(path) not in str(stats)

    @pytest.mark.parametrize("uri", ["memory://nowhere", "memory://", "file:///etc/passwd", "memory://timeline/never"])
    def test_what_is_not_there_is_an_error(self, path: Path, uri: str) -> None:
        with serving(path) as agent, pytest.raises(MCPError) as raised:
            agent.read(uri)

        assert raised.value.code == -32602


class TestPrompts:
    def test_recall_brings_what_is_known_and_says_how_to_look_further(self, path: Path) -> None:
        with serving(path) as agent:
            agent.add("We deploy with make ship")
            told = agent.prompt("recall", task="deploy with make ship")

        assert "<relevant-context>" in told
        assert told.index("We deploy") < told.index("memory_search") < told.index("memory_get")

    def test_save_tells_what_is_worth_it(self, path: Path) -> None:
        with serving(path) as agent:
            told = agent.prompt("save", about="the outage")

        assert "(the outage)" in told
        assert told.index("memory_search") < told.index("memory_supersede") < told.index("memory_add")

    def test_an_unknown_one_or_one_without_its_task_is_an_error(self, path: Path) -> None:
        with serving(path) as agent:
            for name in ("recall", "nothing"):
                with pytest.raises(MCPError):
                    agent.prompt(name)


def test_the_handshake_loads_neither_engine_nor_model(tmp_path: Path) -> None:
    code = """
        import sys
        import memorist.cli.agents, memorist.mcp_server.server, memorist.mcp_server.http
        print([name for name in ("numpy", "apsw", "onnxruntime", "memorist.engine") if name in sys.modules])
    """
    lines = "\n".join(line.strip() for line in code.splitlines())
    done = subprocess.run(
        [sys.executable, "-c", lines], env=environment(tmp_path / "m.db"), capture_output=True, text=True, check=True
    )

    assert done.stdout.strip() == "[]"
