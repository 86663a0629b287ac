/** A dialog that lets another memory replace this one: found by a search, or written now. */

import { html, useState } from "../../vendor/preact.js";
import { perform } from "../core/acts.js";
import { ask, post, request } from "../core/api.js";
import { useLoaded } from "../core/loading.js";
import { Dialog } from "./dialog.js";
import { textOf } from "./memory-row.js";

const SHOWN = 6;

/** @param {{memory: any, onClose: () => void}} props */
export function Supersede({ memory, onClose }) {
  const [query, setQuery] = useState("");
  const loaded = useLoaded((signal) => (query.trim() ? ask("search", { query, limit: SHOWN + 1 }, { signal }) : Promise.resolve({ hits: [] })), ["supersede", query]);
  const others = (loaded.data?.hits ?? []).filter((hit) => hit.memory.id !== memory.id).slice(0, SHOWN);
  const path = `memories/${encodeURIComponent(memory.id)}/supersede`;
  const supersede = async (by) => {
    if (await perform("Superseded.", () => post(path, { by }), () => request("DELETE", path))) onClose();
  };
  const write = async () => {
    let created = null;
    const act = async () => {
      created = await post("memories", { content: query, on_near_duplicate: "off", ...(memory.project ? { project: memory.project } : {}), tags: memory.tags });
      await post(path, { by: created.id });
    };
    const undo = async () => {
      await request("DELETE", path);
      await request("DELETE", `memories/${encodeURIComponent(created.id)}`);
    };
    if (await perform("Superseded.", act, undo)) onClose();
  };
  return html`<${Dialog} title="What replaces it?" onClose=${onClose}>
    <div class="field"><label for="supersede-by">Search for the newer memory, or write it</label>
      <textarea id="supersede-by" class="input" rows="2" autofocus value=${query} onInput=${(event) => setQuery(event.target.value)}></textarea></div>
    <ul class="more-links">${others.map((hit) => html`<li key=${hit.memory.id}><button type="button" class="button" onClick=${() => supersede(hit.memory.id)}><span class="clamp-1"><bdi>${textOf(hit.memory).slice(0, 90)}</bdi></span></button></li>`)}</ul>
    <div class="dialog-foot"><button type="button" class="button" onClick=${onClose}>Cancel</button>
      <button type="button" class="button is-primary" disabled=${!query.trim()} onClick=${write}>Remember this text instead</button></div>
  <//>`;
}
