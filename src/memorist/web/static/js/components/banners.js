/** What holds for the whole page: that it shows the past, that the server is away, that the session has ended. */

import { html, useState } from "../../vendor/preact.js";
import { logIn } from "../core/api.js";
import { asOf, connection } from "../core/app-state.js";
import { formatMoment } from "../core/format.js";
import { useStore } from "../core/store.js";
import { Dialog } from "./dialog.js";

export function Banners() {
  const moment = useStore(asOf);
  const state = useStore(connection);
  return html`<div class="banners" aria-live="polite">
    ${state === "lost" && html`<div class="banner banner-lost" role="alert">
      <span class="spinner" aria-hidden="true"></span>
      <span>The server does not answer. What you are editing is kept; this page goes on by itself when it is back.</span>
    </div>`}
    ${moment && html`<div class="banner banner-past">
      <span>As things stood on <strong>${formatMoment(moment)}</strong>. Nothing can be changed there.</span>
      <button type="button" class="link-button" onClick=${() => asOf.set(null)}>Back to now</button>
    </div>`}
    ${state === "denied" && html`<${SignIn} />`}
  </div>`;
}

// Outside of the dialog: an answer to an earlier request may close it for a moment.
let typedToken = "";

/** The session has ended, for example because the server was started again: what is on the page stays under it. */
function SignIn() {
  const [token, setToken] = useState(typedToken);
  const [problem, setProblem] = useState("");
  const submit = async (event) => {
    event.preventDefault();
    try {
      await logIn(token.trim());
      typedToken = "";
    } catch (error) {
      setProblem(error.message);
    }
  };
  return html`<${Dialog} title="Open this page again" closable=${false} onClose=${() => {}} class="sign-in">
    <p>Your session has ended. Run <code class="command">memorist ui</code> to open the page with a new one, or enter the server's token. What you were editing is kept.</p>
    <form class="stack" onSubmit=${submit}>
      <div class="field">
        <label for="token">Token</label>
        <input id="token" class="input" type="password" autocomplete="off" required value=${token} onInput=${(event) => setToken((typedToken = event.target.value))} />
      </div>
      ${problem && html`<p class="note is-bad" role="alert">${problem}</p>`}
      <div class="dialog-foot"><button class="button is-primary">Open</button></div>
    </form>
  <//>`;
}
