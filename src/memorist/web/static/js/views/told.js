/** What your agent was told: every recorded recall as it happens, with what it put into the prompt. */

import { html, useEffect, useMemo, useRef, useState } from "../../vendor/preact.js";
import { useMovingFocus } from "../components/moving-focus.js";
import { Answer, Empty } from "../components/states.js";
import { announceError } from "../core/acts.js";
import { ask, get } from "../core/api.js";
import { connection, recallsRevision } from "../core/app-state.js";
import { countOf, formatAgo, formatMoment, formatNumber, formatPercent } from "../core/format.js";
import { useLoaded } from "../core/loading.js";
import { hrefOf } from "../core/router.js";
import { useStore } from "../core/store.js";

const PAGE = 50;
const MOST_IDS = 1000;
const CHARACTERS_PER_TOKEN = 4; // the estimate that budgets are counted with

export function ToldView() {
  const revision = useStore(recallsRevision);
  const state = useStore(connection);
  const [limit, setLimit] = useState(PAGE);
  const loaded = useLoaded((signal) => readRecalls(limit, signal), ["told", limit], [revision]);
  const latest = useLatest(loaded);
  const list = useRef(null);
  useMovingFocus(list);
  return html`
    <div class="view-head"><h1>What your agent was told</h1><p><span class=${`live-dot ${state === "ok" ? "" : "is-off"}`} aria-hidden="true"></span> ${state === "ok" ? "Live: recalls appear as they happen." : "Waiting for the server."}</p></div>
    <${Answer} loaded=${latest}>${({ recalls, memories, cursor }) => recalls.length === 0
      ? html`<${Empty} icon="told" title="No recall is recorded yet"><p>Searches by hooks, MCP and chat appear here, with what they found. On the command line, <code>memorist search QUESTION --record log</code> records one.</p><//>`
      : html`<p class="visually-hidden" role="status" aria-live="polite">Latest question: ${recalls[0].query ?? "not kept"}</p>
        <ol ref=${list} aria-label="Recalls, the latest first">${recalls.map((recall) => html`<${Recall} key=${recall.id} recall=${recall} memories=${memories} />`)}</ol>
        ${cursor && limit < 1000 && html`<p class="row"><button type="button" class="button" onClick=${() => setLimit(Math.min(1000, limit * 2))}>Show more</button></p>`}`}<//>`;
}

function Recall({ recall, memories }) {
  const [open, setOpen] = useState(false);
  const isNew = useMemo(() => Date.now() - Date.parse(recall.at) < 5000, []);
  const found = recall.memories.map((each) => ({ ...each, memory: memories.get(each.id) }));
  const text = found.map(({ memory }) => memory?.content).filter(Boolean).join("\n\n");
  return html`<li class=${`recall ${isNew ? "is-new" : ""}`} tabindex="-1" data-row>
    <p class="recall-question"><bdi>${recall.query ?? "A question that is no longer kept"}</bdi></p>
    <div class="meta"><time datetime=${recall.at} title=${formatMoment(recall.at)}>${formatAgo(recall.at)}</time>
      <span>${found.length ? countOf(found.length, "memory", "memories") : "nothing found"}</span>
      ${text && html`<span>about ${formatNumber(Math.ceil(text.length / CHARACTERS_PER_TOKEN))} tokens</span>`}
      <span>${recall.mode}, ${recall.profile}</span>
      ${recall.session && html`<a href=${hrefOf("conversation", recall.session)}><bdi>session ${recall.session.slice(0, 24)}</bdi></a>`}</div>
    <ol class="recall-memories">${found.map(({ id, relevance, memory }) => html`<li key=${id}><a href=${hrefOf("memory", id)}><span class="number faint">${formatPercent(relevance)}</span><span class="clamp-1"><bdi>${memory ? memory.title || memory.content : "a memory that is gone"}</bdi></span></a></li>`)}</ol>
    ${text && html`<button type="button" class="link-button small" aria-expanded=${String(open)} onClick=${() => setOpen(!open)}>${open ? "Hide the text" : "Show the text it was given"}</button>`}
    ${open && html`<div class="prompt-text" tabindex="0" role="region" aria-label="The text of the memories">${text}</div>`}
  </li>`;
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
