/** What a view shows while it has nothing to show: loading, empty, failed. */

import { html } from "../../vendor/preact.js";
import { Icon } from "./icon.js";

/** Grey lines in the place of rows that are on their way. @param {{rows?: number}} props */
export function Skeleton({ rows = 4 }) {
  return html`<div class="skeleton-rows" aria-hidden="true">
    ${Array.from({ length: rows }, (_, at) => html`<div key=${at}><div class="skeleton skeleton-line"></div><div class="skeleton skeleton-line is-short"></div></div>`)}
  </div>`;
}

/**
 * Nothing is there, and what to do about it.
 * @param {{icon?: string, title: string, children?: any}} props
 */
export function Empty({ icon = "empty", title, children }) {
  return html`<div class="state"><${Icon} name=${icon} class="state-icon" /><h2>${title}</h2>${children}</div>`;
}

/**
 * Something failed, and a way to try again.
 * @param {{error: Error & {isLost?: boolean, status?: number}, reload?: () => void}} props
 */
export function Failure({ error, reload }) {
  if (error.isLost) return html`<${Empty} icon="clock" title="Waiting for the server"><p>This view fills itself as soon as it answers.</p><//>`;
  return html`<div class="state" role="alert">
    <${Icon} name="warning" class="state-icon" />
    <h2>${error.status === 404 ? "Not found" : "This did not work"}</h2>
    <p class="stored-text">${error.message}</p>
    ${reload && html`<button class="button" type="button" onClick=${reload}>Try again</button>`}
  </div>`;
}

/**
 * The answer of the server, or the state that stands in for it.
 * @param {{loaded: import("../core/loading.js").Loaded<any>, rows?: number, children: (data: any) => any}} props
 */
export function Answer({ loaded, rows, children }) {
  if (loaded.data !== null) return children(loaded.data);
  if (loaded.error) return html`<${Failure} error=${loaded.error} reload=${loaded.reload} />`;
  return html`<${Skeleton} rows=${rows} />`;
}
