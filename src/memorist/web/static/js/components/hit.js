/** One hit of a search: its passage, its relevance, and why it stands there. */

import { html, useState } from "../../vendor/preact.js";
import { announce, announceError } from "../core/acts.js";
import { post } from "../core/api.js";
import { shortPath } from "../core/format.js";
import { hrefOf } from "../core/router.js";
import { Icon } from "./icon.js";
import { Snippet } from "./marked-text.js";
import { MemoryMeta } from "./memory-row.js";
import { Relevance, WhyBar } from "./why-bar.js";

/** @param {{hit: any, query: string, why: boolean, moved?: any}} props */
export function Hit({ hit, query, why, moved }) {
  const { memory } = hit;
  const [open, setOpen] = useState(false);
  const [judged, setJudged] = useState(null);
  const judge = async (good) => {
    try {
      await post(`memories/${encodeURIComponent(memory.id)}/feedback`, { good, query });
      setJudged(good);
      announce(good ? "Noted as a good answer." : "Noted as a bad answer.");
    } catch (error) {
      announceError(error);
    }
  };
  const onKeyDown = (event) => {
    if (event.key === "+" || event.key === "-") {
      event.preventDefault();
      judge(event.key === "+");
    }
  };
  const shown = why || open;
  return html`<li class="hit" onKeyDown=${onKeyDown}>
    <div class="hit-head">
      <a class="hit-text stored-text" href=${hrefOfHit(hit)} data-row><${Passage} hit=${hit} /></a>
      <${Relevance} relevance=${hit.relevance} />
    </div>
    <div class="hit-foot">
      <${MemoryMeta} memory=${memory}>${moved}${hit.path && html`<span title=${hit.path}><bdi>${shortPath(hit.path)}</bdi>, line ${hit.start_line}</span>`}<//>
      <span class="hit-acts">
        <button type="button" class="button is-quiet" aria-expanded=${String(shown)} aria-controls=${`why-${memory.id}`} onClick=${() => setOpen(!open)}>Why</button>
        ${!hit.path && html`<${Thumb} good=${true} judged=${judged} judge=${judge} /><${Thumb} good=${false} judged=${judged} judge=${judge} />`}
      </span>
    </div>
    ${hit.trace && html`<${WhyBar} trace=${hit.trace} score=${hit.score} open=${shown} id=${memory.id} />`}
  </li>`;
}

function Passage({ hit }) {
  const title = hit.title ?? hit.memory.title;
  return html`${title && html`<span class="hit-title"><bdi>${title}</bdi>${"\n"}</span>`}<${Snippet} snippet=${hit.snippet} />`;
}

function Thumb({ good, judged, judge }) {
  return html`<button type="button" class="button is-quiet is-icon" aria-pressed=${String(judged === good)} aria-label=${good ? "Good answer" : "Bad answer"} title=${good ? "Good answer" : "Bad answer"}
    onClick=${() => judge(good)}><${Icon} name=${good ? "up" : "down"} /></button>`;
}

/** Return where a hit is read: in its conversation, in its document, or on its own. @param {any} hit */
function hrefOfHit(hit) {
  if (hit.document) return hrefOf("document", hit.document, { line: hit.start_line, end: hit.end_line });
  if (hit.memory.kind === "turn" && hit.memory.session) return hrefOf("conversation", hit.memory.session.id, { turn: hit.memory.id });
  return hrefOf("memory", hit.memory.id);
}
