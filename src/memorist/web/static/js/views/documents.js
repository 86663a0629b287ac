/** The files that are indexed. */

import { html, useRef } from "../../vendor/preact.js";
import { useMovingFocus } from "../components/moving-focus.js";
import { PagedLinks } from "../components/paged-links.js";
import { Empty } from "../components/states.js";
import { memoriesRevision } from "../core/app-state.js";
import { countOf, formatAgo, formatBytes, shortPath } from "../core/format.js";
import { hrefOf } from "../core/router.js";
import { useStore } from "../core/store.js";

export function DocumentsView() {
  const list = useRef(null);
  const revision = useStore(memoriesRevision);
  useMovingFocus(list);
  const empty = html`<${Empty} icon="documents" title="No files are indexed"><p>Index a folder of notes, docs or code to search it together with your memories:</p><code class="command">memorist index docs/</code><//>`;
  return html`<div class="view-head"><h1>Documents</h1></div>
    <div ref=${list}><${PagedLinks} path="documents" field="documents" revision=${revision} empty=${empty} label="Indexed files, by path" renderItem=${renderDocument} /></div>`;
}

function renderDocument(document) {
  return html`<a class="list-link" data-row href=${hrefOf("document", document.id)}>
    <strong><bdi>${document.title ?? document.path}</bdi></strong>
    <span class="meta"><bdi title=${document.path}>${shortPath(document.path)}</bdi><span>${countOf(document.chunks, "chunk")}</span><span>${formatBytes(document.size)}</span><span>indexed ${formatAgo(document.indexed_at)}</span>${document.project && html`<bdi>${document.project}</bdi>`}</span>
  </a>`;
}
