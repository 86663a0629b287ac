/** What your agent was told: every recorded recall as it happens, with what it put into the prompt. */

import { html, useEffect, useMemo, useRef, useState } from "../../vendor/preact.js";
import { useMovingFocus } from "../components/moving-focus.js";
import { Answer, Empty } from "../components/states.js";
import { announceError } from "../core/acts.js";
import { ask, get } from "../core/api.js";
import { connection, recallsRevision } from "../core/app-state.js";
import { countOf, formatAgo, formatMoment, formatPercent } from "../core/format.js";
import { useLoaded } from "../core/loading.js";
import { hrefOf } from "../core/router.js";
import { useStore } from "../core/store.js";

const PAGE = 50;
const MOST_IDS = 1000;
const BRIEFING = "briefing"; // the mode of a recall that nobody asked for
const SURFACES = { library: "library", cli: "command line", hook: "hook", mcp: "MCP", chat: "chat", http: "HTTP" };

export function RecallsView() {
  const revision = useStore(recallsRevision);
  const state = useStore(connection);
  const [limit, setLimit] = useState(PAGE);
  const loaded = useLoaded((signal) => readRecalls(limit, signal), ["recalls", limit], [revision]);
  const latest = useLatest(loaded);
  const list = useRef(null);
  useMovingFocus(list);
  return html`
    <div class="view-head"><h1>What your agent was told</h1><p><span class=${`live-dot ${state === "ok" ? "" : "is-off"}`} aria-hidden="true"></span> ${state === "ok" ? "Live: recalls appear as they happen." : "Waiting for the server."}</p></div>
    <${Answer} loaded=${latest}>${({ recalls, memories, cursor }) => recalls.length === 0
      ? html`<${Empty} icon="recalls" title="No recall is recorded yet"><p>What hooks, MCP and chat put into prompts appears here. On the command line, <code>memorist search QUESTION --record log</code> records one.</p><//>`
      : html`<p class="visually-hidden" role="status" aria-live="polite">Latest question: ${questionOf(recalls[0])}</p>
        <ol ref=${list} aria-label="Recalls, the latest first">${recalls.map((recall) => html`<${Recall} key=${recall.id} recall=${recall} memories=${memories} />`)}</ol>
        ${cursor && limit < 1000 && html`<p class="row"><button type="button" class="button" onClick=${() => setLimit(Math.min(1000, limit * 2))}>Show more</button></p>`}`}<//>`;
}

function Recall({ recall, memories }) {
  const [open, setOpen] = useState(false);
  const isNew = useMemo(() => Date.now() - Date.parse(recall.at) < 5000, []);
  const found = recall.memories.map((each) => ({ ...each, memory: memories.get(each.id) }));
  const given = found.filter((each) => each.prompt != null);
  const hidden = recall.tokens != null && given.length < found.length;
  return html`<li class=${`recall ${isNew ? "is-new" : ""}`} tabindex="-1" data-row>
    <p class="recall-question"><bdi>${questionOf(recall)}</bdi></p>
    <div class="meta"><time datetime=${recall.at} title=${formatMoment(recall.at)}>${formatAgo(recall.at)}</time>
      ${recall.surface && html`<span class="badge is-plain">${SURFACES[recall.surface] ?? recall.surface}</span>`}
      <span>${found.length ? countOf(found.length, "memory", "memories") : "nothing found"}</span>
      ${recall.tokens != null && html`<span>${countOf(recall.tokens, "token")} put into the prompt</span>`}
      <span>${recall.mode === BRIEFING ? recall.profile : `${recall.mode}, ${recall.profile}`}</span>
      ${recall.session && html`<a href=${hrefOf("conversation", recall.session)}><bdi>session ${recall.session.slice(0, 24)}</bdi></a>`}</div>
    <ol class="recall-memories">${found.map(({ id, relevance, memory }) => html`<li key=${id}><a href=${hrefOf("memory", id)}><span class="number faint">${relevance > 0 ? formatPercent(relevance) : ""}</span><span class="clamp-1"><bdi>${memory ? memory.title || memory.content : "a memory that is gone"}</bdi></span></a></li>`)}</ol>
    ${given.length > 0 && html`<button type="button" class="link-button small" aria-expanded=${String(open)} onClick=${() => setOpen(!open)}>${open ? "Hide the prompt" : "Show what was put into the prompt"}</button>`}
    ${open && html`<div class="prompt-text" tabindex="0" role="region" aria-label="What was put into the prompt">${given.map((each) => each.prompt).join("\n")}</div>
      ${hidden && html`<p class="small faint">The text of memories that were forgotten since is not shown.</p>`}`}
  </li>`;
}

function questionOf({ query, mode }) {
  if (mode === BRIEFING) return "Briefing at the start of a session";
  return query ?? "A question that is no longer kept";
}

/** Read recalls, with the memories they found. */
async function readRecalls(limit, signal) {
  const page = await get("recalls", { query: { limit }, signal });
  const ids = [...new Set(page.recalls.flatMap((recall) => recall.memories.map((memory) => memory.id)))].slice(0, MOST_IDS);
  const memories = new Map();
  if (ids.length) {
    const answer = await ask("memories:get", { ids }, { signal }).catch((error) => (announceError(error), { memories: [] }));
    for (const memory of answer.memories) memories.set(memory.id, memory);
  }
  return { ...page, memories };
}

/** Keep what is shown while more is read. */
function useLatest(loaded) {
  const last = useRef(null);
  useEffect(() => {
    if (loaded.data) last.current = loaded.data;
  }, [loaded.data]);
  return loaded.loading && !loaded.data && last.current ? { ...loaded, data: last.current } : loaded;
}
