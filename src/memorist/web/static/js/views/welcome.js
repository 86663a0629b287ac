/** The first visit: nothing is remembered yet, and how to change that. */

import { html, useState } from "../../vendor/preact.js";
import { announce, announceError } from "../core/acts.js";
import { post } from "../core/api.js";
import { memoriesRevision } from "../core/app-state.js";
import { countOf } from "../core/format.js";
import { hrefOf } from "../core/router.js";

/** @param {{onNew: () => void}} props */
export function WelcomeView({ onNew }) {
  const [busy, setBusy] = useState(false);
  const loadSample = async () => {
    setBusy(true);
    try {
      const report = await post("import:sample");
      announce(`${countOf(report.added, "sample memory", "sample memories")} added.`);
      memoriesRevision.set((count) => count + 1);
    } catch (error) {
      announceError(error);
    }
    setBusy(false);
  };
  return html`<div class="welcome stack">
    <h1>Nothing is remembered yet</h1>
    <p class="faint">Everything an agent or you put into this memory appears here the moment it is stored. There are four ways to begin.</p>
    <ul class="ways">
      <li class="card way"><div><h2>Look around with sample data</h2><p>Some months of an invented software project: notes, conversations, facts, and things to review. Forget it whenever you like.</p></div>
        <button type="button" class="button is-primary" disabled=${busy} onClick=${loadSample}>${busy ? "Adding" : "Add sample data"}</button></li>
      <li class="card way"><div><h2>Import your conversations</h2><p>Exports of ChatGPT and Claude, transcripts of coding agents, and exports of other memories.</p></div>
        <a class="button" href=${hrefOf("import")}>Import a file</a></li>
      <li class="card way"><div><h2>Connect your agent</h2><p>It then saves and recalls by itself: <code>memorist install</code></p></div></li>
      <li class="card way"><div><h2>Write something down</h2><p>Or on the command line: <code>memorist add "We deploy with make ship"</code></p></div>
        <button type="button" class="button" onClick=${onNew}>New memory</button></li>
    </ul>
  </div>`;
}
