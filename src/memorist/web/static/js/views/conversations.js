/** The conversations that were imported or saved, the latest first. */

import { html, useRef } from "../../vendor/preact.js";
import { useMovingFocus } from "../components/moving-focus.js";
import { PagedLinks } from "../components/paged-links.js";
import { Empty } from "../components/states.js";
import { memoriesRevision } from "../core/app-state.js";
import { countOf, formatAgo, formatMoment } from "../core/format.js";
import { hrefOf } from "../core/router.js";
import { useStore } from "../core/store.js";

export function ConversationsView() {
  const list = useRef(null);
  const revision = useStore(memoriesRevision);
  useMovingFocus(list);
  const empty = html`<${Empty} icon="conversations" title="No conversations yet"><p>Import an export of ChatGPT or Claude, or the transcripts of a coding agent. Conversations with <code>memorist chat</code> appear here, too.</p><a class="button" href=${hrefOf("import")}>Import a file</a><//>`;
  return html`<div class="view-head"><h1>Conversations</h1></div>
    <div ref=${list}><${PagedLinks} path="sessions" field="sessions" revision=${revision} empty=${empty} label="Conversations, the latest first" renderItem=${renderSession} /></div>`;
}

function renderSession(session) {
  return html`<a class="list-link" data-row href=${hrefOf("conversation", session.id)}>
    <strong class="clamp-2"><bdi>${session.summary ?? `Session ${session.id}`}</bdi></strong>
    <span class="meta"><time datetime=${session.started_at} title=${formatMoment(session.started_at)}>${formatAgo(session.started_at)}</time>
      <span>${countOf(session.memories, "memory", "memories")}</span>${session.project && html`<bdi>${session.project}</bdi>`}${!session.ended_at && html`<span class="badge">Open</span>`}</span>
  </a>`;
}
