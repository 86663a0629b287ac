/** What stands below a memory: its history, its facts, its relations, and its recalls. */

import { html, useState } from "../../vendor/preact.js";
import { DecayCurve, decayRateOf } from "../components/decay-curve.js";
import { Diff } from "../components/diff.js";
import { MemoryMeta, textOf } from "../components/memory-row.js";
import { Answer } from "../components/states.js";
import { perform } from "../core/acts.js";
import { get, post, request, timeParameters } from "../core/api.js";
import { asOf, memoriesRevision, recallsRevision, serverSettings } from "../core/app-state.js";
import { formatAgo, formatMoment, formatPercent } from "../core/format.js";
import { useLoaded } from "../core/loading.js";
import { hrefOf } from "../core/router.js";
import { useStore } from "../core/store.js";

/** @param {{memory: any}} props */
export function HistoryPanel({ memory }) {
  const revision = useStore(memoriesRevision);
  const loaded = useLoaded((signal) => get(`memories/${encodeURIComponent(memory.id)}/history`, { signal }), ["history", memory.id], [revision]);
  return html`<${Answer} loaded=${loaded} rows=${1}>${({ items }) => {
    const versions = [...items].sort((a, b) => b.replaced_at.localeCompare(a.replaced_at));
    if (!versions.length) return html`<p class="faint">It has never been changed.</p>`;
    return html`<ol>${versions.map((version, at) => html`<li class="version" key=${version.replaced_at}>
      <p class="meta"><time datetime=${version.replaced_at}>${formatMoment(version.replaced_at)}</time><span>${at === 0 ? "the latest change" : "an earlier change"}</span></p>
      <${Diff} before=${version.content} after=${at === 0 ? memory.content : versions[at - 1].content} />
    </li>`)}</ol>`;
  }}<//>`;
}

/** @param {{memory: any, fixed: boolean}} props */
export function FactsPanel({ memory, fixed }) {
  const rates = useDecayRates();
  const moment = useStore(asOf);
  const [text, setText] = useState("");
  const add = async (event) => {
    event.preventDefault();
    let created = null;
    const done = await perform("Fact added.", async () => (created = await post(`memories/${encodeURIComponent(memory.id)}/facts`, { text })), () => request("DELETE", `facts/${created.id}`));
    if (done) setText("");
  };
  return html`<div class="stack">
    ${memory.facts.length === 0 && html`<p class="faint">No facts are attached to it. A fact is a statement whose confidence fades with time.</p>`}
    <ul>${memory.facts.map((fact) => html`<li class="fact" key=${fact.id}>
      <div><div class="stored-text">${fact.text}</div>
        <div class="meta"><span>${fact.kind ?? "fact"}</span><span>${formatPercent(fact.effective)} sure now</span><span>confirmed ${formatAgo(fact.reinforced_at)}</span>
          ${!fixed && html`<button type="button" class="link-button no-dot" onClick=${() => confirmFact(fact)}>Still true</button>
          <button type="button" class="link-button no-dot" onClick=${() => removeFact(memory.id, fact)}>Remove</button>`}</div></div>
      <${DecayCurve} fact=${fact} rate=${decayRateOf(fact, rates)} now=${moment ? Date.parse(moment) : undefined} />
    </li>`)}</ul>
    ${!fixed && html`<form class="row" onSubmit=${add}><label class="visually-hidden" for="new-fact">A new fact</label>
      <input id="new-fact" class="input" required placeholder="A new fact" value=${text} onInput=${(event) => setText(event.target.value)} /><button class="button">Add fact</button></form>`}
  </div>`;
}

/** @param {{memory: any}} props */
export function RelatedPanel({ memory }) {
  const revision = useStore(memoriesRevision);
  const loaded = useLoaded((signal) => get(`memories/${encodeURIComponent(memory.id)}/related`, { query: { limit: 20, ...timeParameters() }, signal }), ["related", memory.id], [revision]);
  return html`<${Answer} loaded=${loaded} rows=${2}>${({ items }) => items.length === 0
    ? html`<p class="faint">Nothing is linked with it, and nothing is similar to it.</p>`
    : html`<ul>${items.map((item) => html`<li key=${item.memory.id}><a class="related-item" href=${hrefOf("memory", item.memory.id)}>
        <span class="clamp-2"><bdi>${textOf(item.memory)}</bdi></span>
        <${MemoryMeta} memory=${item.memory}>${item.relation ? html`<span class="badge">${item.relation.kind}</span>` : html`<span class="no-dot">${formatPercent(item.similarity ?? 0)} similar</span>`}<//>
      </a></li>`)}</ul>`}<//>`;
}

/** @param {{memory: any}} props */
export function RecallsPanel({ memory }) {
  const revision = useStore(recallsRevision);
  const loaded = useLoaded((signal) => get("recalls", { query: { memory: memory.id, limit: 50 }, signal }), ["recalls", memory.id], [revision]);
  return html`<${Answer} loaded=${loaded} rows=${2}>${({ recalls }) => recalls.length === 0
    ? html`<p class="faint">No recorded search has found it yet.</p>`
    : html`<ol>${recalls.map((recall) => {
        const found = recall.memories.find((each) => each.id === memory.id);
        return html`<li class="version" key=${recall.id}>
          <div><bdi>${recall.query ?? "a question that is no longer kept"}</bdi></div>
          <div class="meta"><time datetime=${recall.at} title=${formatMoment(recall.at)}>${formatAgo(recall.at)}</time>
            ${found && html`<span>place ${found.place}</span><span>relevance ${formatPercent(found.relevance)}</span>`}
            ${recall.session && html`<span><bdi>session ${recall.session}</bdi></span>`}</div>
        </li>`;
      })}</ol>`}<//>`;
}

/** Confirm a fact. Undoing puts it back with the confidence it had. @param {any} fact */
export function confirmFact(fact) {
  const amount = 0.5;
  const putBack = async () => {
    await request("DELETE", `facts/${fact.id}`);
    await addAgain(fact.memory_id, { ...fact, confidence: fact.effective });
  };
  return perform("Confirmed.", () => post(`facts/${fact.id}/reinforce`, { amount }), putBack);
}

/** Remove a fact. @param {string} memoryId @param {any} fact */
export function removeFact(memoryId, fact) {
  return perform("Fact removed.", () => request("DELETE", `facts/${fact.id}`), () => addAgain(memoryId, { ...fact, confidence: fact.effective }));
}

function addAgain(memoryId, { text, kind, subject, predicate, object, confidence, decay_rate }) {
  const fields = { text, kind, subject, predicate, object, confidence, decay_rate };
  return post(`memories/${encodeURIComponent(memoryId)}/facts`, Object.fromEntries(Object.entries(fields).filter(([, value]) => value != null)));
}

/** Return the decay of facts by kind, as the profile in use has it. */
export function useDecayRates() {
  const settings = useStore(serverSettings);
  const name = settings?.settings?.profile ?? "balanced";
  const rates = settings?.profiles?.find((profile) => profile.name === name)?.options?.fact_decay;
  return rates && typeof rates === "object" ? rates : {};
}
