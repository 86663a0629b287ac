/** The list of keyboard shortcuts. */

import { html } from "../../vendor/preact.js";
import { Dialog } from "./dialog.js";

const GROUPS = [
  ["Go to", [["g s", "Search"], ["g t", "Timeline"], ["g c", "Conversations"], ["g d", "Documents"], ["g r", "Review"], ["g w", "What your agent was told"], ["g i", "Insights"], ["g m", "Import"], ["g ,", "Settings"]]],
  ["Anywhere", [["/", "Search"], ["n", "New memory"], ["j k", "Next, previous"], ["Enter", "Open"], ["u", "Undo the last act"], ["Esc", "Back, close"], ["?", "This help"]]],
  ["In search", [["w", "Why each hit stands there"], ["c", "Compare two profiles"], ["+ −", "Good or bad answer"]]],
  ["A memory", [["e", "Edit"], ["p", "Pin"], ["f", "Forget"], ["o", "Open its surroundings"]]],
  ["Review", [["m", "Merge, or keep the newer"], ["f", "Forget"], ["x", "It is fine: dismiss"], ["u", "Undo"]]],
];

/** @param {{onClose: () => void}} props */
export function Help({ onClose }) {
  return html`<${Dialog} title="Keyboard" onClose=${onClose}>
    ${GROUPS.map(([name, keys]) => html`<section key=${name} class="stack-s">
      <h3>${name}</h3>
      <dl class="key-list">
        ${keys.map(([key, does]) => html`<div key=${key}><dt>${does}</dt><dd>${key.split(" ").map((each) => html`<kbd key=${each}>${each}</kbd> `)}</dd></div>`)}
      </dl>
    </section>`)}
  <//>`;
}
