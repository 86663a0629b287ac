/** Tabs as the ARIA practices describe them: arrows move between them, the panel follows. */

import { html } from "../../vendor/preact.js";

/**
 * @param {{label: string, chosen: string, onChoose: (name: string) => void, tabs: Array<{name: string, label: string, count?: number | null}>, children?: any}} props
 */
export function Tabs({ label, chosen, onChoose, tabs, children }) {
  const onKeyDown = (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const at = tabs.findIndex((tab) => tab.name === chosen);
    const next = tabs[(at + step + tabs.length) % tabs.length];
    onChoose(next.name);
    document.querySelector(`#tab-${next.name}`)?.focus();
  };
  return html`<div>
    <div class="tabs" role="tablist" aria-label=${label} onKeyDown=${onKeyDown}>
      ${tabs.map((tab) => html`<button type="button" role="tab" key=${tab.name} id=${`tab-${tab.name}`} aria-selected=${String(tab.name === chosen)} aria-controls="tab-panel"
        tabindex=${tab.name === chosen ? 0 : -1} onClick=${() => onChoose(tab.name)}>${tab.label}${tab.count ? html`<span class="tab-count">${tab.count}</span>` : null}</button>`)}
    </div>
    <div class="panel" role="tabpanel" id="tab-panel" aria-labelledby=${`tab-${chosen}`}>${children}</div>
  </div>`;
}
