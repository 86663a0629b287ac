/** The review inbox: near duplicates, contradictions, faded facts, memories nobody recalled, secrets. Every act can be undone. */

import { html, useEffect, useRef, useState } from "../../vendor/preact.js";
import { Diff } from "../components/diff.js";
import { MemoryMeta } from "../components/memory-row.js";
import { moveFocus } from "../components/moving-focus.js";
import { Answer, Empty } from "../components/states.js";
import { Tabs } from "../components/tabs.js";
import { perform } from "../core/acts.js";
import { get, post, request } from "../core/api.js";
import { memoriesRevision, serverSettings } from "../core/app-state.js";
import { countOf, formatPercent } from "../core/format.js";
import { useKeys } from "../core/keys.js";
import { useLoaded } from "../core/loading.js";
import { hrefOf } from "../core/router.js";
import { createKeptStore, safeStorage, useStore } from "../core/store.js";
import { confirmFact, removeFact } from "./memory-panels.js";

const KINDS = [
  { name: "duplicates", label: "Near duplicates", merge: "Merge", fine: "Both are right" },
  { name: "contradictions", label: "Contradictions", merge: "Keep the newer", fine: "Both are right" },
  { name: "stale_facts", label: "Faded facts", merge: "Still true", fine: "Leave it" },
  { name: "never_recalled", label: "Never recalled", fine: "Leave it" },
  { name: "secrets", label: "Secrets", fine: "It is no secret" },
];
const DISTINCT = "distinct"; // the relation that tells the server that two memories are both right
const LIMIT = 50;

/** Items that were left alone and that the server has no place for: kept in this browser. */
const leftAlone = createKeptStore("left_alone", [], safeStorage("localStorage"));

export function ReviewView() {
  const [chosen, setChosen] = useState(KINDS[0].name);
  const revision = useStore(memoriesRevision);
  const left = useStore(leftAlone);
  const pages = Object.fromEntries(KINDS.map(({ name }) => [name, useItems(name, revision)])); // always the same hooks, in the same order
  const kind = KINDS.find((each) => each.name === chosen);
  const itemsOf = (name) => (pages[name].data?.items ?? []).filter((item) => !left.includes(keyOf(item)));
  const isLoaded = KINDS.every(({ name }) => !pages[name].loading);
  const total = KINDS.reduce((sum, { name }) => sum + itemsOf(name).length, 0);
  useEffect(() => {
    if (isLoaded) dispatchEvent(new CustomEvent("memorist:review-count", { detail: total }));
  }, [total, isLoaded]);
  return html`
    <div class="view-head"><h1>Review</h1><p>What deserves a look. Nothing here is final: <kbd>u</kbd> undoes every act.</p></div>
    <${Tabs} label="Kinds" chosen=${chosen} onChoose=${setChosen} tabs=${KINDS.map(({ name, label }) => ({ name, label, count: itemsOf(name).length }))}>
      <${Answer} key=${chosen} loaded=${pages[chosen]}>${(page) => html`<${Items} kind=${kind} items=${itemsOf(chosen)} page=${page} /><${LookFurther} kind=${kind} page=${page} loaded=${pages[chosen]} />`}<//>
    <//>`;
}

/** Read the items of one kind, as many pages as were asked for; each kind by itself, since some take longer than others. */
function useItems(name, revision) {
  const [pages, setPages] = useState(1);
  const loaded = useLoaded((signal) => readPages(name, pages, signal), ["review", name], [revision, pages], { followsTime: false });
  return { ...loaded, lookFurther: () => setPages(loaded.data.pages + 1) };
}

async function readPages(kind, most, signal) {
  const items = [];
  let lookedAt = 0;
  let cursor = null;
  let pages = 0;
  do {
    const page = await get("review", { query: { kind, limit: LIMIT, ...(cursor && { cursor }) }, signal });
    items.push(...page.items);
    lookedAt += page.looked_at;
    cursor = page.cursor;
    pages += 1;
  } while (cursor && pages < most);
  return { items, looked_at: lookedAt, cursor, pages };
}

/** What was looked at, and a button to go on if there is more. */
function LookFurther({ kind, page, loaded }) {
  if (!page?.cursor) return null;
  const what = kind.name === "stale_facts" ? "fact" : "memory";
  return html`<p class="row"><button type="button" class="button" disabled=${loaded.loading} onClick=${loaded.lookFurther}>Look further</button>
    <span class="faint small" role="status">${loaded.loading ? "Looking…" : `The newest ${countOf(page.looked_at, what, what === "fact" ? "facts" : "memories")} are looked at.`}</span></p>`;
}

function Items({ kind, items, page }) {
  const list = useRef(null);
  const place = useRef(0);
  const acts = (item) => actsOf(kind.name, item);
  const withFocused = (act) => () => {
    const at = items.findIndex((item) => list.current?.querySelector(`[data-key="${CSS.escape(keyOf(item))}"]`)?.contains(document.activeElement));
    if (at < 0) {
      moveFocus(list.current, "[data-row]", 1);
      return;
    }
    place.current = at;
    acts(items[at])[act]?.();
  };
  useKeys({
    j: () => moveFocus(list.current, "[data-row]", 1),
    k: () => moveFocus(list.current, "[data-row]", -1),
    m: withFocused("merge"),
    f: withFocused("forget"),
    x: withFocused("fine"),
  });
  useEffect(() => {
    // After an act, the focus goes to what took the place of the item.
    if (document.activeElement === document.body && items.length && place.current >= 0) list.current?.querySelectorAll("[data-row]")[Math.min(place.current, items.length - 1)]?.focus();
  }, [items.length]);
  if (!items.length) return html`<${Empty} icon="review" title="Nothing to review"><p>${page ? `${countOf(page.looked_at, "memory", "memories")} looked at.` : ""}</p><//>`;
  return html`<ul ref=${list} aria-label=${kind.label}>
    ${items.map((item) => html`<${Item} key=${keyOf(item)} kind=${kind} item=${item} acts=${acts(item)} />`)}
  </ul>`;
}

function Item({ kind, item, acts }) {
  const settings = useStore(serverSettings);
  const fixed = Boolean(settings?.read_only);
  const [newer, older] = item.memories;
  return html`<li class="review-item" tabindex="-1" data-row data-key=${keyOf(item)}>
    ${item.reasons.length > 0 && html`<div class="meta">${item.reasons.map((reason) => html`<span key=${reason}><bdi>${reason}</bdi></span>`)}${older && item.similarity != null && kind.name === "contradictions" && html`<span>${formatPercent(item.similarity)} alike</span>`}</div>`}
    ${older
      ? html`<div class="review-pair"><${Side} label="Older" memory=${older} text=${older.content} /><${Side} label="Newer" memory=${newer} text=${html`<${Diff} before=${older.content} after=${newer.content} />`} /></div>`
      : html`<div class="review-pair"><${Side} memory=${newer} text=${item.fact ? item.fact.text : newer.content} note=${item.fact ? `${formatPercent(item.fact.effective)} sure now` : ""} /></div>`}
    <div class="row">
      ${acts.merge && html`<button type="button" class="button is-primary" disabled=${fixed} onClick=${acts.merge}>${kind.merge} <kbd>m</kbd></button>`}
      <button type="button" class="button" disabled=${fixed} onClick=${acts.forget}>${item.fact ? "Remove the fact" : older ? "Forget the older" : "Forget"} <kbd>f</kbd></button>
      <button type="button" class="button is-quiet" disabled=${fixed} onClick=${acts.fine}>${kind.fine} <kbd>x</kbd></button>
    </div>
  </li>`;
}

function Side({ label, memory, text, note }) {
  return html`<div class="review-memory"><div class="stored-text">${text}</div>
    <${MemoryMeta} memory=${memory}>${label && html`<span class="badge is-plain">${label}</span>`}${note && html`<span>${note}</span>`}<a class="no-dot" href=${hrefOf("memory", memory.id)}>Open</a><//></div>`;
}

/** Return what can be done about an item, each act with its undoing. */
function actsOf(kind, item) {
  const [newer, older] = item.memories;
  const forgotten = older ?? newer;
  const forget = () => perform("Forgotten.", () => request("DELETE", `memories/${encodeURIComponent(forgotten.id)}`), () => post(`memories/${encodeURIComponent(forgotten.id)}/restore`));
  const leave = () => perform("Left as it is.", async () => leftAlone.set((keys) => [...keys, keyOf(item)]), async () => leftAlone.set((keys) => keys.filter((key) => key !== keyOf(item))));
  if (kind === "stale_facts") return { merge: () => confirmFact(item.fact), forget: () => removeFact(newer.id, item.fact), fine: leave };
  if (!older) return { forget, fine: leave };
  const query = { target: older.id, kind: DISTINCT };
  const path = `memories/${encodeURIComponent(newer.id)}/relations`;
  return {
    merge: () => perform(kind === "duplicates" ? "Merged into the newer." : "The newer one holds.", () => post(`memories/${encodeURIComponent(newer.id)}/merge`, { others: [older.id] }), () => request("DELETE", `memories/${encodeURIComponent(older.id)}/supersede`)),
    forget,
    fine: () => perform("Both are kept.", () => post(path, query), () => request("DELETE", path, { query })),
  };
}

function keyOf(item) {
  return [item.kind, item.fact?.id, ...item.memories.map((memory) => memory.id)].filter(Boolean).join(" ");
}
