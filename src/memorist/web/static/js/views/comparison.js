/** Two ways to rank the same query, side by side. */

import { html } from "../../vendor/preact.js";
import { Hit } from "../components/hit.js";
import { Answer } from "../components/states.js";
import { ask, timeParameters } from "../core/api.js";
import { memoriesRevision } from "../core/app-state.js";
import { countOf } from "../core/format.js";
import { useLoaded } from "../core/loading.js";
import { useStore } from "../core/store.js";

const COMPARED = 10;
const LENS = "lens:"; // before the name of a lens, where profiles and lenses are named alike

/** @param {{body: any, profiles: string[], why: boolean}} props */
export function Comparison({ body, profiles, why }) {
  const revision = useStore(memoriesRevision);
  const lenses = profiles.filter((name) => name.startsWith(LENS));
  const ways = { profile: undefined, lens: undefined, profiles: profiles.filter((name) => !name.startsWith(LENS)), lenses: lenses.map((name) => name.slice(LENS.length)) };
  const asked = { ...body, ...ways, limit: COMPARED, ...timeParameters() };
  const loaded = useLoaded((signal) => ask("compare", asked, { signal }), [body, profiles], [revision]);
  return html`<${Answer} loaded=${loaded}>${({ answers }) => html`
    <p class="visually-hidden" role="status">${answers.map((answer, at) => `${profiles[at]}: ${countOf(answer.hits.length, "hit")}`).join(", ")}</p>
    <p class="note compare-note">Rate hits with the thumbs: <code>memorist eval --from-recalls</code> measures profiles by what you said.</p>
    <div class="compare-columns">
      ${answers.map((answer, at) => html`<section key=${profiles[at]} aria-label=${`Ranked by ${profiles[at]}`}>
        <h2><bdi>${profiles[at]}</bdi></h2>
        <ol class="hits">${answer.hits.map((hit, place) => html`<${Hit} key=${hit.memory.id} hit=${hit} query=${answer.query} why=${why}
          moved=${html`<${Moved} place=${place} other=${answers[1 - at].hits.findIndex((each) => each.memory.id === hit.memory.id)} />`} />`)}</ol>
      </section>`)}
    </div>`}<//>`;
}

/** How the place of a hit differs from its place in the other ranking. */
function Moved({ place, other }) {
  if (other < 0) return html`<span class="badge moved">only here</span>`;
  if (other === place) return html`<span class="moved">same place</span>`;
  return html`<span class="moved">${place < other ? "↑" : "↓"} ${Math.abs(other - place)} ${place < other ? "higher" : "lower"} here</span>`;
}
