/** A conversation, read in place; a turn that was found is opened where it was said. */

import { html, useEffect, useRef } from "../../vendor/preact.js";
import { useMovingFocus } from "../components/moving-focus.js";
import { Answer, Empty } from "../components/states.js";
import { get } from "../core/api.js";
import { memoriesRevision } from "../core/app-state.js";
import { countOf, formatMoment, formatTime, labelOf } from "../core/format.js";
import { useLoaded } from "../core/loading.js";
import { hrefOf } from "../core/router.js";
import { useStore } from "../core/store.js";

const PAGE = 1000;
const MOST_PAGES = 10;

/** @param {{route: import("../core/router.js").Route}} props */
export function ConversationView({ route }) {
  const revision = useStore(memoriesRevision);
  const list = useRef(null);
  const target = route.parameters.get("turn");
  const id = encodeURIComponent(route.id);
  const loaded = useLoaded(async (signal) => ({ session: await get(`sessions/${id}`, { signal }), turns: await readTurns(id, signal) }), ["conversation", route.id], [revision]);
  const shown = loaded.data !== null;
  useMovingFocus(list);
  useEffect(() => {
    const turn = list.current?.querySelector(".is-target");
    turn?.scrollIntoView({ block: "center" });
    turn?.focus({ preventScroll: true });
  }, [shown, target]);
  return html`<${Answer} loaded=${loaded} rows=${6}>${({ session, turns }) => html`
    <div class="view-head">
      <h1><bdi>${session.summary ?? "Conversation"}</bdi></h1>
      <p class="meta"><time datetime=${session.started_at}>${formatMoment(session.started_at)}</time><span>${countOf(turns.length, "turn")}</span>${session.project && html`<bdi>${session.project}</bdi>`}</p>
    </div>
    ${turns.length === 0 && html`<${Empty} icon="conversations" title="Nothing was said here"><p>This session holds no turns that are still remembered.</p><//>`}
    <ol class="stack-s" ref=${list} aria-label="Turns">
      ${turns.map((turn) => html`<${Turn} key=${turn.id} turn=${turn} isTarget=${turn.id === target} />`)}
    </ol>`}<//>`;
}

function Turn({ turn, isTarget }) {
  const role = turn.metadata?.role ?? turn.kind ?? "memory";
  return html`<li class=${`turn ${role === "user" ? "is-user" : ""} ${isTarget ? "is-target" : ""}`} tabindex="-1" data-row aria-current=${isTarget ? "true" : undefined}>
    <div class="turn-role"><strong><bdi>${labelOf(String(role))}</bdi></strong><time datetime=${turn.created_at} title=${formatMoment(turn.created_at)}>${formatTime(turn.created_at)}</time></div>
    <div><div class="stored-text">${turn.content}</div><a class="turn-open" href=${hrefOf("memory", turn.id)}>Open<span class="visually-hidden"> this turn as a memory</span></a></div>
  </li>`;
}

async function readTurns(id, signal) {
  const turns = [];
  let cursor = null;
  for (let page = 0; page < MOST_PAGES; page += 1) {
    const answer = await get(`sessions/${id}/turns`, { query: { limit: PAGE, cursor }, signal });
    turns.push(...answer.memories);
    cursor = answer.cursor;
    if (!cursor) break;
  }
  return turns;
}
