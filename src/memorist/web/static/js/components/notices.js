/** Short notices of what was done, with a button that undoes it. */

import { html } from "../../vendor/preact.js";
import { notices, undoLast } from "../core/acts.js";
import { useStore } from "../core/store.js";

export function Notices() {
  const shown = useStore(notices);
  return html`<div class="notices" role="status" aria-live="polite">
    ${shown.map((notice) => html`<div class=${`notice ${notice.tone === "error" ? "is-error" : ""}`} key=${notice.id}>
      <span>${notice.text}</span>
      ${notice.undo && html`<button type="button" onClick=${() => undoLast(notice)}>Undo</button>`}
    </div>`)}
  </div>`;
}
