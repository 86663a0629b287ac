/** One memory: its text, its history, its facts, what it is linked with, and who recalled it when. */

import { html, useEffect, useState } from "../../vendor/preact.js";
import { Icon } from "../components/icon.js";
import { MemoryEditor } from "../components/memory-editor.js";
import { MemoryMeta } from "../components/memory-row.js";
import { Answer } from "../components/states.js";
import { Supersede } from "../components/supersede.js";
import { Tabs } from "../components/tabs.js";
import { perform } from "../core/acts.js";
import { post, request, requestWithTag, timeParameters } from "../core/api.js";
import { asOf, memoriesRevision, serverSettings } from "../core/app-state.js";
import { readDraft } from "../core/drafts.js";
import { countOf, formatMoment, formatPercent, shortId } from "../core/format.js";
import { useKeys } from "../core/keys.js";
import { useLoaded } from "../core/loading.js";
import { go, hrefOf } from "../core/router.js";
import { useStore } from "../core/store.js";
import { FactsPanel, HistoryPanel, RecallsPanel, RelatedPanel } from "./memory-panels.js";

/** @param {{route: import("../core/router.js").Route}} props */
export function MemoryView({ route }) {
  const revision = useStore(memoriesRevision);
  const loaded = useLoaded((signal) => requestWithTag("GET", `memories/${encodeURIComponent(route.id)}`, { query: timeParameters(), signal }), [route.id], [revision]);
  const isGone = loaded.error?.status === 404;
  if (isGone && !loaded.data) return html`<${Gone} id=${route.id} error=${loaded.error} />`;
  return html`<${Answer} loaded=${loaded} rows=${3}>${({ body, etag }) => html`<${Memory} memory=${isGone ? { ...body, deleted_at: body.deleted_at ?? new Date().toISOString() } : body} etag=${etag} />`}<//>`;
}

/** A memory that the server does not give: it may be forgotten, which can be undone, or it never was. */
function Gone({ id, error }) {
  const path = `memories/${encodeURIComponent(id)}`;
  const restore = () => perform("Restored.", () => post(`${path}/restore`), () => request("DELETE", path));
  return html`<div class="state"><${Icon} name="empty" class="state-icon" /><h1>Not found</h1><p class="stored-text">${error.message}</p>
    <button type="button" class="button" onClick=${restore}>Restore it, if it was forgotten</button></div>`;
}

function Memory({ memory, etag }) {
  const moment = useStore(asOf);
  const settings = useStore(serverSettings);
  const [editing, setEditing] = useState(readDraft(memory.id) !== null);
  const [superseding, setSuperseding] = useState(false);
  const [tab, setTab] = useState(memory.facts.length ? "facts" : "related");
  const fixed = Boolean(moment || settings?.read_only || memory.deleted_at);
  const acts = actsOf(memory);
  useEffect(() => {
    if (moment) setEditing(false);
  }, [moment]);
  useKeys({
    e: () => !fixed && setEditing(true),
    p: () => !fixed && acts.togglePin(),
    f: () => !moment && (memory.deleted_at ? acts.restore() : acts.forget()),
    o: () => go(hrefOf("graph", memory.id)),
  });
  return html`
    <div class="view-head">
      <h1 class="visually-hidden">Memory ${shortId(memory.id)}</h1>
      <${MemoryMeta} memory=${memory} />
      <div class="view-actions">
        <button type="button" class="button" disabled=${fixed} aria-pressed=${String(memory.pinned)} onClick=${acts.togglePin}><${Icon} name="pin" />${memory.pinned ? "Pinned" : "Pin"}</button>
        <button type="button" class="button" disabled=${fixed} onClick=${() => setEditing(true)}>Edit</button>
        ${memory.superseded_by
          ? html`<button type="button" class="button" disabled=${fixed} onClick=${acts.unsupersede}>No longer superseded</button>`
          : html`<button type="button" class="button" disabled=${fixed} onClick=${() => setSuperseding(true)}>Supersede</button>`}
        ${memory.deleted_at
          ? html`<button type="button" class="button is-primary" disabled=${Boolean(moment)} onClick=${acts.restore}>Restore</button>`
          : html`<button type="button" class="button is-danger" disabled=${fixed} onClick=${acts.forget}>Forget</button>`}
      </div>
    </div>
    <div class="memory-columns">
      <div class="stack">
        ${memory.deleted_at && html`<p class="note is-bad">Forgotten ${formatMoment(memory.deleted_at)}. No search finds it. <button type="button" class="link-button" onClick=${acts.restore}>Restore it</button></p>`}
        ${memory.superseded_by && html`<p class="note is-warn">Superseded by <a href=${hrefOf("memory", memory.superseded_by.id)}><bdi>${memory.superseded_by.content.slice(0, 160)}</bdi></a></p>`}
        <article class="card memory-content">
          ${editing
            ? html`<${MemoryEditor} memory=${memory} etag=${etag} onDone=${() => setEditing(false)} />`
            : html`${memory.title && html`<h2><bdi>${memory.title}</bdi></h2>`}<div class="stored-text">${memory.content}</div>`}
        </article>
        <${Tabs} label="About this memory" chosen=${tab} onChoose=${setTab} tabs=${[
          { name: "facts", label: "Facts", count: memory.facts.length },
          { name: "related", label: "Related", count: memory.related_count },
          { name: "history", label: "History" },
          { name: "recalls", label: "Recalls", count: memory.access_count },
        ]}>
          ${tab === "history" && html`<${HistoryPanel} memory=${memory} />`}
          ${tab === "facts" && html`<${FactsPanel} memory=${memory} fixed=${fixed} />`}
          ${tab === "related" && html`<${RelatedPanel} memory=${memory} />`}
          ${tab === "recalls" && html`<${RecallsPanel} memory=${memory} />`}
        <//>
      </div>
      <${Side} memory=${memory} />
    </div>
    ${superseding && html`<${Supersede} memory=${memory} onClose=${() => setSuperseding(false)} />`}`;
}

function Side({ memory }) {
  return html`<aside class="memory-side" aria-label="Details">
    <dl class="details">
      <dt>Happened</dt><dd>${formatMoment(memory.created_at)}</dd>
      <dt>Stored</dt><dd>${formatMoment(memory.recorded_at)}</dd>
      ${memory.updated_at > memory.recorded_at && html`<dt>Changed</dt><dd>${formatMoment(memory.updated_at)}</dd>`}
      <dt>Salience</dt><dd>${formatPercent(memory.salience)}</dd>
      <dt>Sector</dt><dd>${memory.sector}</dd>
      <dt>Tier</dt><dd>${memory.tier}</dd>
      ${memory.source && html`<dt>Source</dt><dd><bdi>${memory.source}</bdi></dd>`}
      <dt>Recalled</dt><dd>${memory.access_count ? countOf(memory.access_count, "time") : "never"}</dd>
      <dt>Id</dt><dd><code>${memory.id}</code></dd>
      ${Object.entries(memory.metadata ?? {}).map(([name, value]) => html`<dt key=${name}><bdi>${name}</bdi></dt><dd><bdi>${typeof value === "string" ? value : JSON.stringify(value)}</bdi></dd>`)}
    </dl>
    ${memory.session && html`<p><a href=${hrefOf("conversation", memory.session.id, { turn: memory.id })}>Open the conversation it comes from</a></p>`}
    <p><a class="button" href=${hrefOf("graph", memory.id)}><${Icon} name="graph" />Surroundings <kbd>o</kbd></a></p>
  </aside>`;
}

/** Return what can be done with a memory, each act with its undoing. */
function actsOf(memory) {
  const path = `memories/${encodeURIComponent(memory.id)}`;
  const forget = () => request("DELETE", path);
  const restore = () => post(`${path}/restore`);
  const pin = () => post(`${path}/pin`);
  const unpin = () => request("DELETE", `${path}/pin`);
  return {
    forget: () => perform("Forgotten.", forget, restore),
    restore: () => perform("Restored.", restore, forget),
    togglePin: () => (memory.pinned ? perform("Unpinned.", unpin, pin) : perform("Pinned.", pin, unpin)),
    unsupersede: () => perform("No longer superseded.", () => request("DELETE", `${path}/supersede`), () => post(`${path}/supersede`, { by: memory.superseded_by.id })),
  };
}
