/** Import by dropping a file, and export of everything. */

import { html, useState } from "../../vendor/preact.js";
import { Icon } from "../components/icon.js";
import { addressOf, newKey, request } from "../core/api.js";
import { memoriesRevision } from "../core/app-state.js";
import { countOf, formatBytes } from "../core/format.js";
import { hrefOf } from "../core/router.js";

const SHOWN_PROBLEMS = 20;

export function ImportView() {
  const [over, setOver] = useState(false);
  const [project, setProject] = useState("");
  const [runs, setRuns] = useState([]);
  const importFiles = async (files) => {
    for (const file of files) {
      const run = { id: newKey(), name: file.name, size: file.size, state: "running" };
      setRuns((all) => [run, ...all]);
      const finish = (result) => setRuns((all) => all.map((each) => (each.id === run.id ? { ...each, ...result } : each)));
      await importFile(file, project, run.id).then((report) => finish({ state: "done", report }), (error) => finish({ state: "failed", error }));
      memoriesRevision.set((count) => count + 1);
    }
  };
  const drop = (event) => {
    event.preventDefault();
    setOver(false);
    importFiles([...event.dataTransfer.files]);
  };
  const drag = (event) => {
    event.preventDefault();
    setOver(event.type === "dragover");
  };
  return html`
    <div class="view-head"><h1>Import</h1></div>
    <div class="stack">
      <div class=${`drop ${over ? "is-over" : ""}`} onDragOver=${drag} onDragLeave=${drag} onDrop=${drop}>
        <${Icon} name="import" />
        <h2>Drop a file here</h2>
        <p>An export of ChatGPT or Claude, a transcript of a coding agent, an export of Memorist, mem0 or another memory. The format is found out; secrets are redacted.</p>
        <label class="button is-primary" for="import-file">Choose a file</label>
        <input id="import-file" class="visually-hidden" type="file" multiple onChange=${(event) => { importFiles([...event.target.files]); event.target.value = ""; }} />
      </div>
      <div class="field"><label for="import-project">Project for what is imported, if it names none</label><input id="import-project" class="input" value=${project} onInput=${(event) => setProject(event.target.value)} /></div>
      <ul class="stack" aria-live="polite">${runs.map((run) => html`<${Run} key=${run.id} run=${run} />`)}</ul>
      <hr />
      <div class="row"><div><h2>Export</h2><p class="faint small">Everything of this namespace, one JSON record a line.</p></div><a class="button row-end" href=${addressOf("export")} download="memorist.jsonl">Download</a></div>
    </div>`;
}

function Run({ run }) {
  if (run.state === "running") return html`<li class="note row"><span class="spinner" aria-hidden="true"></span>Importing <bdi>${run.name}</bdi>, ${formatBytes(run.size)}</li>`;
  if (run.state === "failed") return html`<li class="note is-bad"><strong><bdi>${run.name}</bdi></strong>: ${run.error.message}</li>`;
  const { report } = run;
  const redacted = Object.values(report.redacted ?? {}).reduce((sum, count) => sum + count, 0);
  return html`<li class="note is-good">
    <p><strong><bdi>${run.name}</bdi></strong>: ${countOf(report.added, "memory", "memories")} added${report.known ? `, ${report.known} known already` : ""}${report.sessions ? `, in ${countOf(report.sessions, "conversation")}` : ""}${redacted ? `, ${countOf(redacted, "secret")} redacted` : ""}.
      <a href=${hrefOf(report.sessions ? "conversations" : "search")}>Look at them</a></p>
    ${report.skipped.length > 0 && html`<details><summary>${countOf(report.skipped.length, "part")} could not be imported</summary><ul>${report.skipped.slice(0, SHOWN_PROBLEMS).map(([place, reason], at) => html`<li key=${at}><bdi>${place}</bdi>: <bdi>${reason}</bdi></li>`)}</ul></details>`}
  </li>`;
}

function importFile(file, project, idempotencyKey) {
  const form = new FormData();
  if (project.trim()) form.append("project", project.trim());
  form.append("file", file, file.name);
  return request("POST", "import", { form, idempotencyKey });
}
