/** Settings of this page and of the server, and the health check. */

import { html, useState } from "../../vendor/preact.js";
import { Failure } from "../components/states.js";
import { announceError } from "../core/acts.js";
import { get, logOut, request } from "../core/api.js";
import { serverSettings, statistics, theme } from "../core/app-state.js";
import { countOf, formatBytes, formatNumber, labelOf } from "../core/format.js";
import { useLoaded } from "../core/loading.js";
import { useStore } from "../core/store.js";

const THEMES = [["", "As the system"], ["light", "Light"], ["dark", "Dark"]];

export function SettingsView() {
  const chosen = useStore(theme);
  const server = useStore(serverSettings);
  const stats = useStore(statistics);
  const models = useLoaded((signal) => get("models", { signal }), ["models"]);
  return html`
    <div class="view-head"><h1>Settings</h1></div>
    <section aria-labelledby="settings-page">
      <h2 id="settings-page">This page</h2>
      <div class="setting"><label for="theme">Theme<small>Remembered in this browser</small></label>
        <select id="theme" class="select" value=${chosen ?? ""} onChange=${(event) => theme.set(event.target.value || null)}>${THEMES.map(([value, label]) => html`<option key=${value} value=${value}>${label}</option>`)}</select></div>
      <div class="setting"><div>Log out<small>Then a new link or the token opens the page</small></div>
        <div><button type="button" class="button" onClick=${() => logOut().then(() => location.reload(), announceError)}>Log out</button></div></div>
    </section>
    <hr />
    <${Health} />
    <hr />
    <section aria-labelledby="settings-server">
      <h2 id="settings-server">The server</h2>
      ${server && html`<${Setting} name="Version" value=${server.version} /><${Setting} name="Namespace" value=${server.namespace} />
        <${Setting} name="Access" note="What the token of this page may do" value=${`${server.read_only ? "read only" : "read and write"}${server.project ? `, project ${server.project}` : ""}`} />`}
      ${stats && html`<${Setting} name="Database" note=${`${stats.database}, schema ${stats.schema}`} value=${`${stats.path} (${formatBytes(stats.size_bytes)})`} /><${Setting} name="Model" value=${stats.model ?? "none: searches go by words alone"} />`}
      ${Object.entries(server?.settings ?? {}).map(([name, value]) => html`<${Setting} key=${name} name=${labelOf(name)} note=${server.origins?.[name] ? `from ${server.origins[name]}` : "default"} value=${asText(value)} />`)}
    </section>
    <hr />
    <section aria-labelledby="settings-models">
      <h2 id="settings-models">Models</h2>
      ${(models.data?.items ?? []).map((model) => html`<${Setting} key=${model.name} name=${model.name} note=${`${model.description}, ${model.licence}`} value=${model.active ? "in use" : model.installed ? "installed" : "not installed"} />`)}
    </section>`;
}

function Setting({ name, note, value }) {
  return html`<div class="setting"><div><bdi>${name}</bdi>${note && html`<small><bdi>${note}</bdi></small>`}</div><div><bdi>${value}</bdi></div></div>`;
}

function Health() {
  const [state, setState] = useState({ report: null, error: null, running: false });
  const server = useStore(serverSettings);
  const run = async (method) => {
    setState({ ...state, running: true });
    try {
      setState({ report: await request(method, "check"), error: null, running: false });
    } catch (error) {
      setState({ report: null, error, running: false });
    }
  };
  const { report, error, running } = state;
  return html`<section aria-labelledby="settings-health" class="stack">
    <div class="row"><div><h2 id="settings-health">Health check</h2><p class="faint small">Compares texts, indexes and vectors with each other.</p></div>
      <button type="button" class="button row-end" disabled=${running} onClick=${() => run("GET")}>${running ? "Checking" : "Check now"}</button></div>
    <div aria-live="polite">
      ${error && html`<${Failure} error=${error} />`}
      ${report && html`<div class=${`note ${report.ok ? "is-good" : "is-bad"}`}>
        <strong>${report.ok ? "All is well." : countOf(report.problems.length, "problem")}</strong> ${formatNumber(report.memories)} memories and ${formatNumber(report.vectors)} vectors were compared.
        ${report.problems.length > 0 && html`<ul>${report.problems.map((problem) => html`<li key=${problem}><bdi>${problem}</bdi></li>`)}</ul>`}
        ${report.repaired.length > 0 && html`<p>Repaired: <bdi>${report.repaired.join("; ")}</bdi></p>`}
        ${!report.ok && !server?.read_only && html`<button type="button" class="button" disabled=${running} onClick=${() => run("POST")}>Repair</button>`}
      </div>`}
    </div>
  </section>`;
}

function asText(value) {
  if (value === null || value === undefined || value === "") return "not set";
  if (typeof value === "boolean") return value ? "yes" : "no";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}
