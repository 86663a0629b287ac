"""Every promise of the README and of SECURITY.md is held by tests, which are named here sentence by sentence."""

import pytest

from doc_pages import ROOT, find_tests, sentences

Promises = dict[str, tuple[str, ...] | str]  # the tests, or the reason why there can be none

START: Promises = {
    "Memorist is a memory for AI agents: a Python library, a command line, an MCP server and a web page over one "
    "SQLite file.": (
        "web/browser/test_views.py::TestSearch::test_it_answers_while_you_type_and_says_why_each_hit_stands_there",
        "test_public_api.py::test_every_public_name_can_be_imported",
        "cli/test_cli.py::TestHelp::test_help_lists_every_command_in_its_group_with_a_line_about_it",
        "mcp_server/test_mcp_transports.py::TestStdio::test_every_tool_answers_in_both_eras_of_the_protocol",
        "test_requirements_rows.py::TestTheFile::test_any_sqlite_with_full_text_search_reads_it",
    ),
    "It finds what was said, decided and learned, by keyword and by meaning, on your own machine, with no API key, no "
    "network and no PyTorch.": (
        "test_search.py::TestModes::test_an_exact_identifier_is_found_by_its_word",
        "test_search.py::TestModes::test_meaning_finds_what_no_word_would",
        "test_offline.py::test_a_surface_phones_nobody",
        "docs/test_readme.py::test_the_installed_packages_are_as_many_and_as_large_as_said",
    ),
}
INSTALL: Promises = {
    "You need Python 3.11 or newer.": (
        "docs/test_project.py::test_the_classifiers_begin_with_the_oldest_python_and_leave_none_out",
        "docs/test_project.py::test_the_workflow_tests_every_python_on_every_system",
    ),
    "There is no release on PyPI yet; install from a clone of this repository:": "only an index of packages could say",
    "Two commands work in a fresh clone with nothing else installed.": (
        "docs/test_pages.py::test_the_readme_names_the_two_commands_that_exist",
        "docs/test_project.py::test_the_workflow_runs_the_script_that_people_run",
    ),
    "Both create their own environment in `.venv`:": (
        "docs/test_project.py::test_the_workflow_runs_the_script_that_people_run",
    ),
}
COMMAND_LINE: Promises = {
    "Every command has `--help` with an example; commands that read also have `--json`.": (
        "cli/test_cli.py::TestHelp::test_every_command_has_help_with_an_example",
        "cli/test_cli.py::TestGroups::test_every_part_has_help_with_an_example_and_is_documented",
        "docs/test_readme.py::test_every_command_that_reads_has_json",
    ),
    "The [command line](docs/command-line.md) page lists them all.": (
        "docs/test_pages.py::test_every_command_is_documented",
    ),
}
AGENT: Promises = {
    "`memorist install` also sets up Codex, Cursor, Gemini CLI, opencode, VS Code, Zed, Windsurf and Claude Desktop.": (
        "docs/test_readme.py::test_the_clients_are_those_that_can_be_set_up",
        "cli/test_cli_install.py::TestEveryClient::test_it_learns_of_the_server_by_its_full_path",
    ),
    "It leaves the rest of their configuration as it is; `--dry-run` shows the changes first.": (
        "cli/test_cli_install.py::TestEveryClient::test_removing_takes_out_what_installing_put_in",
        "cli/test_cli_install.py::TestOthersEntries::test_hooks_of_others_stay_beside_ours",
        "cli/test_cli_install.py::TestOthersEntries::test_comments_stay_where_the_client_allows_them",
        "cli/test_cli_install.py::TestEveryClient::test_a_dry_run_shows_a_diff_and_changes_nothing",
    ),
    "The agent gets eight tools to search and write memories.": (
        "mcp_server/test_mcp_listing.py::test_there_are_eight_tools_with_schemas_of_what_they_take_and_give",
    ),
    "Where the client has hooks, relevant memories also reach it at the start of a session and, in most of them, "
    "before each prompt.": (
        "docs/test_readme.py::test_clients_with_hooks_hear_at_the_start_and_most_before_each_prompt",
        "cli/test_cli_install.py::TestEveryClient::test_it_calls_the_hooks",
        "cli/test_cli_hooks.py::TestAnswers::test_a_session_begins_with_core_memories_and_the_latest_ones",
        "cli/test_cli_hooks.py::TestAnswers::test_a_prompt_is_told_what_is_relevant_to_it",
    ),
    "Conversations of Claude Code, Codex and Gemini CLI are saved when a session ends.": (
        "cli/test_cli_hooks.py::TestSaving::test_the_turns_are_saved_and_found_at_once",
        "cli/test_cli_hooks.py::TestSaving::test_the_transcripts_of_codex_and_gemini_cli_are_saved_as_well",
    ),
    "See [agents](docs/agents.md) and the [MCP server](docs/mcp.md).": (
        "docs/test_pages.py::test_the_links_of_a_page_lead_somewhere",
    ),
}
FEATURES: Promises = {
    "BM25 and vectors run side by side and are fused into one ranking.": (
        "test_requirements_rows.py::TestTheLegs::test_they_run_at_the_same_time",
        "test_search.py::TestModes::test_both_legs_find_one_memory_once",
    ),
    "Identifiers such as `ADR-016`, `src/auth.py` and `user_id` are found as written, and so are two-character words "
    "in Chinese.": (
        "search/test_query.py::test_identifiers_are_found_as_written",
        "search/test_query.py::TestUnspacedScripts::test_words_inside_a_run_of_chinese_are_found",
    ),
    "Any text of up to 10,000 characters is a valid query.": (
        "search/test_query.py::test_no_text_raises_in_any_grammar",
        "search/test_query.py::test_arbitrary_text_never_raises",
    ),
    "A hit says which leg found it, marks the matching passage, and with `--explain` shows how its score adds up.": (
        "docs/test_pages.py::test_the_examples_of_a_page_print_what_it_says",
        "test_search.py::TestHits::test_the_trace_adds_up_to_the_score_in_every_profile",
        "cli/test_cli_search.py::TestJson::test_explain_adds_a_trace_that_adds_up_to_the_score",
        "cli/test_cli_search.py::TestText::test_explain_adds_a_line_about_the_score",
    ),
    '`relevance` is calibrated, so you can tell "nothing relevant" from a weak match.': (
        "test_search.py::TestHits::test_a_near_perfect_match_is_relevant_and_an_unrelated_one_is_not",
        "test_search.py::TestHits::test_a_match_is_as_relevant_in_a_store_of_one_as_in_a_large_one",
    ),
    "Text is committed before anything else happens.": (
        "test_search.py::TestDegradation::test_a_memory_is_kept_though_the_model_fails_and_gets_its_vector_later",
        "test_crash.py::test_a_text_whose_vector_was_cut_short_by_a_kill_gets_it_later",
    ),
    "The test suite kills processes, fills disks and forks in the middle of writes.": (
        "test_crash.py::test_every_add_that_had_returned_survives_a_kill_at_any_moment",
        "test_files.py::test_a_full_disk_gives_a_clear_error_and_nothing_is_half_written",
        "test_many_processes.py::test_parent_and_child_of_a_fork_both_go_on_and_nothing_is_lost",
    ),
    "If the model is missing, keyword search goes on and says so.": (
        "test_search.py::TestDegradation::test_without_a_model_words_still_find_and_degraded_says_why",
    ),
    '`memorist.open("postgresql://...")` is the same memory on a server, with the same ranking.': (
        "store/postgres/test_keyword.py::TestBothBackends::test_find_the_same",
        "store/postgres/test_schema.py::TestRowSecurity::test_hand_written_sql_sees_one_tenant",
    ),
    "`memorist migrate` moves it there and back.": (
        "test_migrate.py::test_everything_goes_to_the_other_kind_of_database_and_back_byte_for_byte",
    ),
    "A newer memory can supersede an older one.": (
        "test_supersession.py::TestLeavingOut::test_search_leaves_out_what_was_superseded",
    ),
    '`as_of="last tuesday"` answers as things stood then.': (
        "docs/test_readme.py::test_last_tuesday_answers_as_things_stood_then",
        "test_as_of.py::TestSuperseding::test_what_was_superseded_later_held_then",
    ),
    "Facts lose confidence with age.": ("test_facts.py::TestDecay::test_old_facts_have_decayed_by_now",),
    "Every update keeps its history.": ("test_memories.py::TestUpdating::test_the_former_text_is_kept_as_history",),
    "`index` reads Markdown, text, HTML, source code and PDF; `watch` follows changes.": (
        "ingest/test_readers.py::TestFiles::test_a_kind_is_recognised_by_its_suffix_or_its_name",
        "ingest/test_readers.py::TestHtml::test_text_is_extracted_from_the_tags_with_its_lines",
        "ingest/test_readers.py::TestPdf::test_pages_stand_for_lines",
        "test_watching.py::TestFolders::test_catches_up_first_and_then_follows",
    ),
    "Only changed chunks are embedded again.": (
        "test_documents.py::TestKeepingUp::test_only_the_chunks_that_changed_are_embedded_and_the_others_keep_their_ids",
    ),
    "`import` reads sessions of Claude Code, Codex, Gemini CLI, Cursor, opencode, Zed and VS Code, exports of ChatGPT "
    "and Claude.ai, and message lists.": (
        "importers/test_agents.py::test_what_was_said_is_read_in_its_order_and_nothing_else",
        "importers/test_transcripts.py::test_the_format_is_known_by_the_content",
    ),
    "Secrets are redacted before anything is stored.": (
        "test_conversations.py::TestSecrets::test_they_are_redacted_by_default_and_reported_by_kind_and_place",
        "test_documents.py::TestSecrets::test_a_secret_in_the_text_is_in_no_byte_of_the_database",
    ),
    "Adapters for LangGraph, LangChain, Haystack, the OpenAI Agents SDK, Google ADK, LlamaIndex, Pydantic AI, "
    "Microsoft Agent Framework and Strands.": "their suites need the frameworks: scripts/test-adapters runs them",
    "`context` returns what is known about a message as a block that fits a token budget.": (
        "test_context.py::test_a_relevant_memory_stands_in_the_block_with_its_labels",
        "test_context.py::test_any_budget_and_any_limit_will_do",
    ),
    "Stored text is escaped, so a memory cannot break out of the block.": (
        "test_context.py::test_no_block_is_over_its_budget_or_leaves_its_frame",
        "test_red_team.py::test_a_memory_that_attacks_stays_in_its_frame_and_its_budget",
    ),
    "Calls in one namespace never see another's text, names or counts.": (
        "test_walls.py::test_every_public_method_is_called_here",
        "test_walls.py::test_names_of_another_namespace_find_nothing_tell_nothing_and_change_nothing",
        "test_walls.py::test_a_namespace_answers_as_if_it_were_alone",
    ),
    "A server can be limited to one project, or to reading.": (
        "mcp_server/test_mcp_tools.py::TestOnlyProject::test_nothing_of_another_project_is_found_or_changed",
        "mcp_server/test_mcp_tools.py::TestReadOnly::test_no_writing_tool_is_listed_or_works",
    ),
    "`forget` can be undone.": (
        "test_memories.py::TestForgetting::test_a_forgotten_memory_is_found_nowhere_until_it_is_restored",
    ),
    "`purge` erases what was forgotten from every table, index and free page of the file.": (
        "test_forgetting.py::test_after_a_purge_no_file_has_a_trace_of_what_was_forgotten",
        "test_forgetting.py::test_whatever_was_done_before_no_word_of_what_is_gone_is_left_after_a_purge",
    ),
    "Lossless JSONL export, Markdown export, and backups of a database in use.": (
        "test_export.py::test_whatever_a_memory_has_lived_through_its_export_gives_the_same_bytes_again",
        "test_export.py::test_a_folder_of_markdown_gives_back_the_same_memories",
        "test_backup.py::test_a_backup_while_others_write_is_sound_and_of_one_moment",
    ),
    "A small English model is bundled.": (
        "embed/test_create_embedder.py::test_the_bundled_model_is_the_default",
        "embed/test_local.py::test_the_vector_is_near_the_one_before_quantisation",
        "docs/test_readme.py::test_the_bundled_model_is_as_large_as_said",
    ),
    "OpenAI-compatible servers, Ollama or an object with an `embed` method work, too.": (
        "embed/test_remote.py::test_both_are_embedders_that_the_engine_can_call",
        "embed/test_create_embedder.py::test_an_embedder_of_ones_own_is_returned_as_it_is",
    ),
    "`memorist eval` measures retrieval on public datasets or on your own questions.": (
        "cli/test_cli_eval.py::TestEval::test_a_table_with_what_was_chosen_marked",
        "cli/test_cli_eval.py::TestOwnMemories::test_a_golden_file_is_measured_and_nothing_is_written",
        "cli/test_cli_eval.py::TestOwnMemories::test_what_was_called_good_is_measured",
    ),
}
FIGURES: Promises = {
    "All figures, what was tuned on what, and where a method did not help: [speed](docs/speed.md) and "
    "[quality](docs/quality.md).": ("docs/test_readme.py::test_the_figures_are_those_of_the_pages",),
}
SIZE: Promises = {
    "In an empty environment, the wheel and all it needs are 14 packages, 190 MB, including the bundled model.": (
        "docs/test_readme.py::test_the_installed_packages_are_as_many_and_as_large_as_said",
    ),
    "PyTorch is not among them.": (
        "docs/test_readme.py::test_the_installed_packages_are_as_many_and_as_large_as_said",
    ),
}
SECURITY: Promises = {
    "A way around any of these is a vulnerability.": "it is about what follows",
    "The library, the command line, the hooks and the MCP server over stdio open no connection, unless you choose an "
    "embedding model or a chat model behind HTTP (`openai:`, `ollama:`, `anthropic:`).": (
        "test_offline.py::test_a_surface_phones_nobody",
        "test_offline.py::test_every_command_is_watched",
        "docs/test_security.py::test_the_library_opens_no_connection",
    ),
    "Then texts are sent to that provider alone.": (
        "test_offline.py::test_a_surface_phones_nobody",
        "chat/test_providers.py::TestRequests::test_each_is_asked_where_it_listens_with_its_key",
    ),
    "Nothing about you, your machine or your use is collected or sent.": (
        "test_offline.py::test_a_surface_phones_nobody",
        "test_offline.py::test_every_command_is_watched",
    ),
    "The telemetry of onnxruntime, which is on by default, is switched off before it is loaded.": (
        "embed/test_telemetry.py::test_embedding_leaves_no_file_of_the_runtime",
        "embed/test_telemetry.py::test_nothing_imports_the_runtime_with_its_telemetry_on",
        "embed/test_telemetry.py::test_a_child_of_the_program_inherits_the_switch",
    ),
    "No call in one namespace returns, counts or changes what belongs to another, not even by id.": (
        "test_walls.py::test_every_public_method_is_called_here",
        "test_walls.py::test_names_of_another_namespace_find_nothing_tell_nothing_and_change_nothing",
        "test_walls.py::test_hidden_counts_nothing_of_another_namespace",
        "test_twin_walls.py::test_what_is_hidden_changes_no_answer",
    ),
    "A token for the HTTP API is for one namespace; only the secret that signs tokens chooses any.": (
        "web/test_http_access.py::test_a_token_without_a_namespace_of_its_own_is_for_that_of_the_server",
        "web/test_http_access.py::test_a_token_of_one_namespace_stays_in_it",
    ),
    "With `memorist mcp --only-project NAME`, a client cannot read, count or change memories of other projects.": (
        "mcp_server/test_mcp_tools.py::TestOnlyProject::test_no_tool_takes_a_project",
        "mcp_server/test_mcp_tools.py::TestOnlyProject::test_nothing_of_another_project_is_found_or_changed",
        "test_project_view.py::test_no_answer_speaks_of_another_project",
    ),
    "With `--read-only`, it cannot write.": (
        "mcp_server/test_mcp_tools.py::TestReadOnly::test_no_writing_tool_is_listed_or_works",
    ),
    "Keys, tokens and passwords that Memorist recognises in indexed files and imported conversations are replaced "
    "before anything is stored, logged or embedded.": (
        "test_documents.py::TestSecrets::test_a_secret_in_the_text_is_in_no_byte_of_the_database",
        "test_conversations.py::TestSecrets::test_they_are_redacted_by_default_and_reported_by_kind_and_place",
        "test_redaction.py::TestEveryPathIn::test_nothing_is_logged_of_it",
        "test_redaction.py::TestBeforeComparing::test_the_model_never_sees_it",
    ),
    "So are those in what models write: over MCP, in chats, in agents' files, facts and summaries of sessions, unless "
    "you set `redact = false`.": (
        "test_redaction.py::TestEveryPathIn::test_what_models_write_is_redacted_without_the_setting",
        "test_redaction.py::TestEveryPathIn::test_everything_is_that_comes_by_the_surface_of_an_agent",
        "test_redaction.py::TestEveryPathIn::test_the_setting_switches_it_off_for_models_too",
    ),
    "For what you `add` and `update` yourself it is a setting (`redact = true`), off by default.": (
        "test_redaction.py::TestAllowed::test_it_is_off_unless_set",
        "test_redaction.py::TestEveryPathIn::test_no_file_ever_holds_the_secret",
    ),
    "Exceptions from redaction that are regular expressions run as an automaton that reads a text once.": (
        "test_redact.py::TestAllowances::test_a_regex_means_what_it_means_in_python",
        "test_redact.py::TestAllowances::test_no_regex_takes_long",
    ),
    "Clients of the HTTP server can name texts only.": (
        "web/test_http_attacks.py::test_a_pattern_of_what_is_no_secret_is_refused",
    ),
    "What is quoted to a language model (`context`, hooks, MCP) is escaped and framed: a memory cannot close its "
    "frame, open another or hide characters.": (
        "test_red_team.py::test_a_memory_that_attacks_stays_in_its_frame_and_its_budget",
        "cli/test_cli_hooks.py::TestAnswers::test_a_memory_cannot_leave_its_frame",
        "mcp_server/test_mcp_breakout.py::test_no_tool_lets_one_out",
    ),
    "Its `memorist.toml` cannot send your memories to a provider, turn redaction off, or have your password sent to "
    "another machine.": (
        "cli/test_cli_settings.py::TestBrokenSettings::test_a_projects_file_may_not_send_memories_elsewhere",
        "cli/test_cli_redaction.py::TestSetting::test_a_projects_file_neither_switches_it_off_nor_makes_exceptions",
        "cli/test_cli_trust.py::TestAddressesInAFile::test_nothing_is_sent_to_a_host_that_only_the_file_names",
    ),
    "Hooks and `memorist mcp` ignore it until you trust it, except for a `project` that is called as its folder.": (
        "cli/test_cli_hooks.py::TestAProjectThatIsNotTrusted::test_it_cannot_name_whose_memories_the_agent_gets",
        "cli/test_cli_hooks.py::TestAProjectThatIsNotTrusted::test_by_the_command_its_settings_hold_until_it_changes",
        "cli/test_cli_hooks.py::TestAProjectThatIsNotTrusted::test_it_is_not_given_the_conversation",
        "mcp_server/test_mcp_transports.py::TestStdio::test_where_a_project_keeps_memories_holds_only_if_it_is_trusted",
    ),
    "API keys come from the environment, are sent only as request headers, and appear in no message, log or "
    "database.": (
        "embed/test_remote.py::test_a_refused_key_is_named_by_its_setting_and_never_shown",
        "embed/test_remote.py::test_no_key_shows_in_the_object_itself",
        "cli/test_cli_chat.py::test_no_key_is_in_the_database_or_in_what_is_shown",
    ),
    "`memorist mcp --http` listens where you tell it to.": (
        "mcp_server/test_mcp_transports.py::TestHttp::test_the_address_it_tells_is_one_it_answers_to",
        "test_offline.py::test_a_surface_phones_nobody",
    ),
    "It checks `Host` and `Origin`; any address but your own machine needs a token.": (
        "mcp_server/test_mcp_transports.py::TestHttp::test_only_requests_to_this_machine_by_its_own_names_are_answered",
        "mcp_server/test_mcp_transports.py::TestHttp::test_what_is_unsafe_or_wrong_is_refused_at_once",
        "mcp_server/test_mcp_transports.py::TestHttp::test_where_a_token_is_set_nobody_gets_in_without_it",
    ),
    "After `forget --hard` or `purge`, no table or index returns the text.": (
        "test_forgetting.py::test_a_hard_forget_leaves_nothing_in_any_table_or_index_before_any_purge",
    ),
    "After `forget --hard` alone, its bytes stay in index pages, free pages and the log of the file; after `purge`, "
    "they are in none of them, nor in a copy that a migration, a restore or a killed process left beside it.": (
        "test_forgetting.py::test_words_of_a_memory_that_was_erased_at_once_are_gone_after_a_purge",
        "test_forgetting.py::test_after_a_purge_no_file_has_a_trace_of_what_was_forgotten",
        "test_backup.py::test_a_purge_takes_the_copy_of_before_a_restore_with_it",
        "test_leftover_files.py::test_what_a_killed_process_left_is_removed_by_the_next_that_works_in_the_folder",
    ),
    "A purge that fails half-way says what is gone and what is not.": (
        "test_forgetting.py::test_a_purge_that_a_reader_keeps_from_its_end_says_so_and_can_be_run_again",
        "test_forgetting.py::test_a_purge_that_cannot_remove_a_copy_names_it_and_says_that_the_database_is_clean",
    ),
    "Importing a transcript again does not bring an erased turn back: a digest of its id is kept, keyed by a random "
    "salt.": (
        "test_erased_turns.py::test_an_erased_turn_is_not_imported_again",
        "test_erased_turns.py::test_an_erased_session_does_not_come_back",
        "test_erased_turns.py::test_what_is_kept_of_an_erased_turn_can_be_read_by_nobody",
    ),
    "Databases, backups, exports, reports of `eval`, and the folders made for them have the permissions 0600 and "
    "0700.": (
        "test_leftover_files.py::test_whatever_holds_memories_can_be_read_by_its_owner_alone",
        "cli/test_cli_privacy.py::test_reports_and_the_databases_behind_them",
    ),
    "A folder that was there, and a file that an export replaces, keep theirs.": (
        "test_atomic_file.py::test_a_replaced_file_keeps_its_permissions",
    ),
    "**Model files are checked** by their SHA-256 before they are loaded.": (
        "embed/test_local.py::test_a_damaged_file_is_refused",
        "embed/test_reranker.py::test_a_damaged_file_is_refused",
    ),
}
LISTED = {
    ("README.md", "Memorist"): START,
    ("README.md", "Install"): INSTALL,
    ("README.md", "Use it from the command line"): COMMAND_LINE,
    ("README.md", "Give it to an agent"): AGENT,
    ("README.md", "Features"): FEATURES,
    ("README.md", "Speed and quality"): FIGURES,
    ("docs/speed.md", "Installed size"): SIZE,
    ("SECURITY.md", "What Memorist promises"): SECURITY,
}
# What the README's tables say about Memorist, where a cell is a promise.
CELLS: dict[str, tuple[str, ...]] = {
    "| embedding model | bundled, 23 MB; others by choice |": (
        "docs/test_readme.py::test_the_bundled_model_is_as_large_as_said",
    ),
    "| needs a language model to store | no |": ("test_offline.py::test_a_surface_phones_nobody",),
    "| search | keyword and vector, fused |": ("test_search.py::TestModes::test_both_legs_find_one_memory_once",),
    "| storage | one SQLite file, or PostgreSQL |": (
        "test_backup.py::test_a_backup_is_the_whole_database_in_one_file",
    ),
    "| telemetry | none |": (
        "test_offline.py::test_a_surface_phones_nobody",
        "embed/test_telemetry.py::test_embedding_leaves_no_file_of_the_runtime",
    ),
    "| licence | Apache-2.0 |": ("docs/test_readme.py::test_the_licences_are_those_said",),
}


@pytest.mark.parametrize("place", LISTED, ids=" ".join)
def test_every_sentence_is_listed_here_in_its_order(place: tuple[str, str]) -> None:
    assert list(LISTED[place]) == sentences(*place)


def test_the_cells_are_in_the_readme() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")

    assert [cell for cell in CELLS if cell not in readme] == []


def test_the_tests_that_hold_them_exist() -> None:
    held = [CELLS, *LISTED.values()]
    named = [name for promises in held for names in promises.values() if isinstance(names, tuple) for name in names]
    missing = []
    for name in named:
        path, separator, test = name.partition("::")
        if separator + test not in find_tests(path):
            missing.append(name)

    assert missing == []
