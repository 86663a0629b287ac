/** An indexed file as it is stored, with the lines of a hit opened. */

import { html, useEffect, useMemo, useRef } from "../../vendor/preact.js";
import { Answer } from "../components/states.js";
import { get } from "../core/api.js";
import { memoriesRevision } from "../core/app-state.js";
import { countOf, formatMoment, shortPath } from "../core/format.js";
import { useLoaded } from "../core/loading.js";
import { useStore } from "../core/store.js";

const PAGE = 1000;
const MOST_PAGES = 10;

/** @param {{route: import("../core/router.js").Route}} props */
export function DocumentView({ route }) {
  const revision = useStore(memoriesRevision);
  const id = encodeURIComponent(route.id);
  const loaded = useLoaded(async (signal) => ({ document: await get(`documents/${id}`, { signal }), chunks: await readChunks(id, signal) }), ["document", route.id], [revision]);
  const line = Number(route.parameters.get("line")) || 0;
  const end = Number(route.parameters.get("end")) || line;
  return html`<${Answer} loaded=${loaded} rows=${8}>${({ document, chunks }) => html`
    <div class="view-head"><h1><bdi>${document.title ?? document.path}</bdi></h1>
      <p class="meta"><bdi title=${document.path}>${shortPath(document.path)}</bdi><span>${countOf(chunks.length, "chunk")}</span><span>indexed ${formatMoment(document.indexed_at)}</span>${line > 0 && html`<span>lines ${line} to ${end}</span>`}</p></div>
    <${Text} chunks=${chunks} line=${line} end=${end} />`}<//>`;
}

function Text({ chunks, line, end }) {
  const body = useRef(null);
  const pieces = useMemo(() => withoutOverlap(chunks), [chunks]);
  useEffect(() => {
    const target = body.current?.querySelector(".is-target");
    target?.scrollIntoView({ block: "center" });
    target?.focus({ preventScroll: true });
  }, [pieces, line]);
  return html`<div class="card document-text" ref=${body}>
    ${pieces.map((piece, at) => {
      const isTarget = line > 0 && piece.start <= end && piece.start + piece.lines.length - 1 >= line;
      const missing = at > 0 ? piece.start - pieces[at - 1].start - pieces[at - 1].lines.length : 0;
      const blank = missing === 1 && html`<div class="line" key=${`${piece.id} blank`}><span class="line-number" aria-hidden="true">${piece.start - 1}</span></div>`;
      return html`${blank}<div key=${piece.id} class=${`chunk ${isTarget ? "is-target" : ""}`} tabindex="-1" role=${isTarget ? "region" : undefined} aria-label=${isTarget ? `The passage that was found, from line ${piece.start}` : undefined}>
        ${missing > 1 && html`<div class="gap-row" aria-hidden="true">⋯</div>`}
        ${piece.lines.map((text, offset) => html`<div class="line" key=${offset}><span class="line-number" aria-hidden="true">${piece.start + offset}</span><span class="stored-text">${text}</span></div>`)}
      </div>`;
    })}
  </div>`;
}

/** Return the lines of the chunks, each line once, though neighbouring chunks may share some. */
function withoutOverlap(chunks) {
  let shown = 0;
  const pieces = [];
  for (const chunk of [...chunks].sort((a, b) => a.ordinal - b.ordinal)) {
    const lines = chunk.text.split("\n");
    const first = Math.max(chunk.start_line, chunk.end_line - lines.length + 1); // a heading above it is not in its text
    const known = Math.max(0, shown - first + 1);
    if (known < lines.length) pieces.push({ id: chunk.id, start: first + known, lines: lines.slice(known) });
    shown = Math.max(shown, first + lines.length - 1);
  }
  return pieces;
}

async function readChunks(id, signal) {
  const chunks = [];
  let cursor = null;
  for (let page = 0; page < MOST_PAGES; page += 1) {
    const answer = await get(`documents/${id}/chunks`, { query: { limit: PAGE, cursor }, signal });
    chunks.push(...answer.chunks);
    cursor = answer.cursor;
    if (!cursor) break;
  }
  return chunks;
}
