"""Export, import, backup, migrate and salvage on the command line."""

import gzip
import json
from contextlib import closing
from pathlib import Path

import apsw
import pytest
from command_line import CommandLine


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(tmp_path, monkeypatch, capsys)


def test_an_export_goes_to_a_file_or_to_standard_output(cli: CommandLine) -> None:
    cli.add("Retries are capped at 5", "--project", "api")

    done = cli("export", "all.jsonl")
    printed = cli("export", "-")

    assert (done.code, done.out) == (0, "")
    assert "Exported 1 record to all.jsonl." in done.err
    assert printed.out == Path("all.jsonl").read_text("utf-8")
    assert json.loads(printed.lines[0])["memorist"] == 1


def test_what_was_exported_is_imported_once_however_often(cli: CommandLine, tmp_path: Path) -> None:
    cli.add("Retries are capped at 5", "--project", "api")
    cli("export", "all.jsonl")
    cli("export", "notes", "--format", "markdown")
    other = ("--db", str(tmp_path / "other.db"))

    assert cli(*other, "import", "all.jsonl").out == "all.jsonl (memorist): 1 added, 0 already known.\n"
    report = cli(*other, "import", "all.jsonl", "notes", "--json").json["imports"]

    assert [(one["path"], one["format"], one["added"], one["known"]) for one in report] == [
        ("all.jsonl", "memorist", 0, 1),
        ("notes", "markdown", 0, 1),
    ]
    assert cli(*other, "export", "-").out == cli("export", "-").out


def test_what_is_packed_or_piped_is_imported_as_if_it_were_plain(cli: CommandLine, tmp_path: Path) -> None:
    cli.add("Retries are capped at 5", "--project", "api")
    export = cli("export", "-").out.encode()
    talk = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "good morning"}]
    Path("all.jsonl.gz").write_bytes(gzip.compress(export))
    Path("talk.json.gz").write_bytes(gzip.compress(json.dumps(talk).encode()))
    Path("note.md.gz").write_bytes(gzip.compress(b"The harbour opens at nine"))
    other = ("--db", str(tmp_path / "other.db"))

    assert cli(*other, "import", "all.jsonl.gz").out == "all.jsonl.gz (memorist): 1 added, 0 already known.\n"
    assert cli(*other, "import", "-", stdin=export).out == "- (memorist): 0 added, 1 already known.\n"
    assert cli(*other, "import", "-", stdin=gzip.compress(export)).out == "- (memorist): 0 added, 1 already known.\n"
    assert cli(*other, "import", "talk.json.gz").out.startswith("talk.json.gz (openai): 2 added, 1 session,")
    assert cli(*other, "import", "-", stdin=json.dumps(talk)).out.startswith("- (openai): 0 added, 2 already known")
    assert cli(*other, "import", "note.md.gz").code == 0
    assert cli(*other, "import", "-", "--format", "markdown", stdin="The tide turns at noon").code == 0
    assert {one["source"] for one in cli(*other, "list", "--json", "--kind", "turn").json["memories"]} == {"talk.json"}
    assert "The harbour opens at nine" in cli(*other, "list").out
    assert "The tide turns at noon" in cli(*other, "list").out


def test_what_is_wrong_with_a_packed_or_piped_file_is_told_by_its_own_name(cli: CommandLine) -> None:
    broken = b'{"memorist":1}\nnot json\n'
    Path("broken.jsonl.gz").write_bytes(gzip.compress(broken))
    Path("cut.jsonl.gz").write_bytes(gzip.compress(b'{"memorist":1}\n' * 100)[:20])

    cli("import", "broken.jsonl.gz").assert_failed(1, "Error: broken.jsonl.gz, line 2: it is not JSON")
    cli("import", "-", stdin=broken).assert_failed(1, "Error: standard input, line 2: it is not JSON")
    cli("import", "cut.jsonl.gz").assert_failed(1, "cut.jsonl.gz is damaged: it cannot be unpacked")
    cli("import", "-").assert_failed(1, "standard input is empty")


def test_what_was_imported_before_another_failed_is_reported(cli: CommandLine) -> None:
    for name in ("one", "three"):
        Path(f"{name}.json").write_text(json.dumps([{"memory": f"number {name}"}]))
    Path("two.json").write_text("{")

    done = cli("import", "one.json", "two.json", "three.json", "--json")

    assert done.code == 1
    assert [(one["path"], one["added"]) for one in json.loads(done.out)["imports"]] == [("one.json", 1)]
    assert done.err.count("\n") == 1
    assert "two.json" in done.err
    cli("import", "two.json", "--json").assert_failed(1, "two.json")


def test_exports_and_backups_tell_what_they_did_as_json(cli: CommandLine) -> None:
    cli.add("one")

    assert cli("export", "all.jsonl", "--json").json == {"path": "all.jsonl", "format": "jsonl", "exported": 1}
    assert cli("export", "notes", "--format", "markdown", "--json").json["exported"] == 1
    cli("export", "-", "--json").assert_failed(2, "--json needs a file")
    made = cli("backup", "create", "copy.db", "--json").json
    assert made == {"path": "copy.db", "bytes": Path("copy.db").stat().st_size}
    kept = f"{cli.database}.before-restore"
    restored = {"path": "copy.db", "restored_to": str(cli.database), "kept": kept}
    assert cli("backup", "restore", "copy.db", "--force", "--json").json == restored
    new = str(cli.work / "new.db")
    assert cli("--db", new, "backup", "restore", "copy.db", "--json").json["kept"] is None


def test_a_damaged_backup_says_what_to_do(cli: CommandLine) -> None:
    cli.add("one")
    Path("text.db").write_text("dear diary\n" * 100)

    cli("backup", "restore", "text.db", "--force").assert_failed(
        1, "text.db is damaged, or no backup, and was not restored (file is not a database). Nothing was changed"
    )
    assert cli.contents() == ["one"]


def test_what_was_passed_over_or_redacted_is_told_on_stderr(cli: CommandLine) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    Path("notes").mkdir()
    Path("notes", "token.md").write_text(f"The token is {secret}")
    Path("notes", "broken.md").write_bytes(b"\xff")

    done = cli("import", "notes", "--project", "home")

    assert done.code == 0
    assert "Skipped broken.md: line 1 is not UTF-8" in done.err
    assert "Redacted: 1 " in done.err
    assert secret not in cli.contents("--project", "home")[0]
    cli("import", "notes", "--no-redact")
    assert any(secret in text for text in cli.contents())


def test_what_cannot_be_read_is_one_line_on_stderr(cli: CommandLine) -> None:
    cli("import", "missing").assert_failed(1, "there is no such file or folder")
    Path("broken.jsonl").write_text('{"memorist":1}\nnot json\n')
    cli("import", "broken.jsonl").assert_failed(1, "broken.jsonl, line 2: it is not JSON")
    cli("import", "broken.jsonl", "--format", "xml").assert_failed(1, "format 'xml' is unknown")
    cli("export", "broken.jsonl", "--format", "xml").assert_failed(1, "format 'xml' is unknown")
    cli("export", "-", "--format", "markdown").assert_failed(2, "name one")


def test_a_backup_is_made_and_put_back_and_nothing_is_overwritten_unasked(cli: CommandLine) -> None:
    cli("backup", "create", "copy.db").assert_failed(1, "nothing to back up")
    cli.add("one")
    assert cli("backup", "create", "copy.db").out.startswith("Backed up to copy.db: checked, ")
    cli("backup", "create", "copy.db").assert_failed(1, "--force")
    cli.add("two")
    cli("backup", "restore", "copy.db").assert_failed(1, "--force")
    assert cli.contents() == ["two", "one"]

    restored, kept = cli("backup", "restore", "copy.db", "--force").lines
    assert restored.startswith("Restored copy.db to ")
    assert kept == f"The old database is kept as {cli.database}.before-restore."

    assert cli.contents() == ["one"]
    assert cli("--db", f"{cli.database}.before-restore", "list").out.count("\n") == 2
    assert cli("backup", "create", "copy.db", "--force").code == 0
    cli("--db", ":memory:", "backup", "restore", "copy.db").assert_failed(1, "restored to a file")
    cli("backup", "restore", "missing.db", "--force").assert_failed(1, "no such file")


def test_a_damaged_database_is_salvaged_into_a_new_file(cli: CommandLine) -> None:
    cli("add", "the port is 8080", "--id", "port-one")
    cli("add", "the queue is full", "--id", "queue-one")
    with closing(apsw.Connection(str(cli.database))) as raw:
        for trigger in ("memories_text_update", "memories_unhashed_update"):
            raw.execute(f"drop trigger {trigger}")
        raw.execute("update memories set content = 'the port is 8090' where id = 'port-one'")

    check = cli("check", "--repair")
    salvaged = cli("salvage", str(cli.database), "new.db")

    assert check.code == salvaged.code == 1
    assert "broken: text: the text of port-one is not the one that was stored" in check.out
    assert "memorist update" in check.err
    assert "backup restore" in check.err
    assert salvaged.out.startswith("Salvaged to new.db: memories 2")
    assert "damaged: text: the text of port-one is not the one that was stored" in salvaged.out
    assert cli("--db", "new.db", "list").out.count("\n") == 2


def test_what_a_repair_cannot_mend_is_left_to_salvage(cli: CommandLine) -> None:
    cli("add", "the port is 8080", "--fact", "the port is open")
    with closing(apsw.Connection(str(cli.database))) as raw:
        [(page,)] = raw.execute("select rootpage from sqlite_master where name = 'facts'")
    with cli.database.open("r+b") as file:
        file.seek((page - 1) * 4096)
        file.write(bytes(4096))

    check = cli("check", "--repair")
    salvaged = cli("salvage", str(cli.database), "new.db", "--json")

    assert f"memorist salvage {cli.database} NEW" in check.err
    assert any(line.startswith("facts: ") for line in json.loads(salvaged.out)["lost"])
    assert cli("--db", "new.db", "search", "port").code == 0
    assert cli("--db", "new.db", "check").code == 0


def test_memories_move_to_another_database_and_back(cli: CommandLine, postgres_url: str) -> None:
    cli.add("Retries are capped at 5", "--project", "api")
    cli.add("The harbour opens at nine")
    first = cli("export", "-").out

    there = cli("migrate", str(cli.database), postgres_url)
    back = cli("migrate", postgres_url, "back.db", "--json").json["migrations"]

    assert (there.code, there.err) == (0, "")
    assert there.lines[0] == "Copied 2 records of the namespace default: 2 memories."
    assert there.lines[1].startswith(f"Verified: the copy has the same records (SHA-256 {back[0]['sha256'][:16]}")
    assert [set(report) for report in back] == [
        {"source", "target", "namespace", "records", "copied", "present", "damaged", "sha256", "seconds", "verified"}
    ]
    assert back[0]["records"] == {"memory": 2}
    assert (back[0]["verified"], back[0]["copied"], back[0]["damaged"]) == (True, 2, [])
    assert cli("--db", "back.db", "export", "-").out == cli("--db", postgres_url, "export", "-").out == first
    assert "(2 of them by an earlier run)" in cli("migrate", str(cli.database), postgres_url).out


def test_one_namespace_moves_or_all_of_them(cli: CommandLine, postgres_url: str) -> None:
    cli.add("mine")
    cli("--namespace", "team", "add", "ours")
    source = str(cli.database)

    assert cli("migrate", source, "one.db", "--namespace", "team").code == 0
    assert cli("--namespace", "team", "migrate", source, "same.db").code == 0
    moved = cli("migrate", source, postgres_url, "--all-namespaces", "--json").json["migrations"]
    cli("migrate", postgres_url, "all.db", "--all-namespaces")

    assert [report["namespace"] for report in moved] == ["default", "team"]
    for database, own, shared in (("one.db", [], ["ours"]), ("same.db", [], ["ours"]), ("all.db", ["mine"], ["ours"])):
        found = [
            [one["content"] for one in cli("--db", database, *options, "list", "--json").json["memories"]]
            for options in ((), ("--namespace", "team"))
        ]
        assert found == [own, shared]
    cli("migrate", source, "x.db", "--namespace", "a", "--all-namespaces").assert_failed(2, "leave one of them out")


def test_a_migration_that_cannot_be_made_says_why(cli: CommandLine) -> None:
    cli.add("mine")
    source = str(cli.database)
    cli("--db", "other.db", "add", "another")

    cli("migrate", "missing.db", "x.db").assert_failed(1, "there is no database at missing.db")
    cli("migrate", "missing.db", "x.db", "--all-namespaces").assert_failed(1, "there is no database at missing.db")
    cli("migrate", source, "other.db").assert_failed(1, "other.db holds other memories in the namespace 'default'")
    cli("migrate", source, "x.db", "--namespace", "none").assert_failed(
        1, "nothing in the namespace 'none' (it has: default)"
    )
    cli("migrate", source, "postgresql://me:secret@127.0.0.1:1/x").assert_failed(1, "postgresql://me@127.0.0.1:1/x")
    assert cli.contents() == ["mine"]


def test_a_damaged_record_stops_a_migration_unless_it_is_to_go_on(cli: CommandLine) -> None:
    broken = cli.add("mine")
    cli.add("also mine")
    with closing(apsw.Connection(str(cli.database))) as connection:
        connection.pragma("ignore_check_constraints", True)
        connection.execute("update memories set metadata = '{' where id = ?", (broken,))

    cli("migrate", str(cli.database), "new.db").assert_failed(1, f"memory {broken}: its metadata is not JSON")
    done = cli("migrate", str(cli.database), "new.db", "--keep-going")

    assert done.code == 1
    assert done.err == f"Damaged: memory {broken}: its metadata is not JSON of its kind\n"
    assert done.lines[0] == "Copied 2 records of the namespace default: 2 memories."


def test_a_migration_that_was_stopped_says_how_to_go_on(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    cli.add("mine")

    def stop(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("memorist.store.loader.ExportLoader.put", stop)
    stopped = cli("migrate", str(cli.database), "new.db")

    assert (stopped.code, stopped.out) == (130, "")
    assert stopped.err == "What was copied stays. Run the same command again to go on.\nStopped.\n"
