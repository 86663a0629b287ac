/** A memory on two lines, as lists show it, and the details that stand under a memory everywhere. */

import { html } from "../../vendor/preact.js";
import { formatAgo, formatMoment } from "../core/format.js";
import { hrefOf } from "../core/router.js";

/** The height of a row, which its style keeps to. */
export const MEMORY_ROW_HEIGHT = 84;

/** @param {{memory: any}} props */
export function MemoryRow({ memory }) {
  const superseded = Boolean(memory.superseded_by || memory.valid_until);
  return html`<a class=${`memory-row ${superseded ? "is-superseded" : ""}`} href=${hrefOf("memory", memory.id)} data-row>
    <span class="clamp-2"><bdi>${textOf(memory)}</bdi></span>
    <${MemoryMeta} memory=${memory} />
  </a>`;
}

/** @param {{memory: any, children?: any}} props */
export function MemoryMeta({ memory, children }) {
  const superseded = Boolean(memory.superseded_by || memory.valid_until);
  return html`<span class="meta">
    ${children}
    ${memory.created_at && html`<time datetime=${memory.created_at} title=${formatMoment(memory.created_at)}>${formatAgo(memory.created_at)}</time>`}
    ${memory.project && html`<bdi>${memory.project}</bdi>`}
    ${memory.kind && html`<bdi>${memory.kind}</bdi>`}
    ${memory.pinned && html`<span class="badge">Pinned</span>`}
    ${superseded && html`<span class="badge is-warn">Superseded</span>`}
    ${memory.deleted_at && html`<span class="badge is-bad">Forgotten</span>`}
    ${(memory.tags ?? []).slice(0, 4).map((tag) => html`<bdi class="tag" key=${tag}>${tag}</bdi>`)}
  </span>`;
}

/** Return the text by which a memory is shown on one or two lines. @param {any} memory */
export function textOf(memory) {
  return memory.title || memory.content || memory.snippet || memory.summary || memory.id;
}
