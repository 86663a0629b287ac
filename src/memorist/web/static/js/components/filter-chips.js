/** Chips of filters: those that are set, to lift; and what filters held back, to let through. */

import { html } from "../../vendor/preact.js";
import { formatNumber, labelOf } from "../core/format.js";
import { Icon } from "./icon.js";

/**
 * @param {{filters: Record<string, string[]>, onLift: (field: string, value: string) => void}} props
 */
export function FilterChips({ filters, onLift }) {
  const set = Object.entries(filters).flatMap(([field, values]) => values.map((value) => [field, value]));
  if (!set.length) return null;
  return html`<div class="chips" role="group" aria-label="Filters that are set">
    ${set.map(([field, value]) => html`<button type="button" class="chip is-set" key=${`${field}:${value}`} onClick=${() => onLift(field, value)}
      aria-label=${`Lift the filter ${labelOf(field)}: ${value}`}>
      <span>${labelOf(field)}: <bdi>${value}</bdi></span><${Icon} name="close" />
    </button>`)}
  </div>`;
}

/** What to say of each reason for which the server held hits back. */
const REASONS = {
  superseded: "superseded",
  include_superseded: "superseded",
  min_relevance: "below the least relevance",
  project: "of other projects",
  tier: "of other tiers",
};

/**
 * @param {{hidden: Record<string, number>, onLift: (reason: string) => void}} props
 */
export function HiddenChips({ hidden, onLift }) {
  const held = Object.entries(hidden ?? {}).filter(([, count]) => count > 0);
  if (!held.length) return null;
  return html`<div class="chips" role="group" aria-label="Held back by filters">
    ${held.map(([reason, count]) => html`<button type="button" class="chip is-hidden-count" key=${reason} onClick=${() => onLift(reason)}>
      <span>${formatNumber(count)} ${REASONS[reason] ?? `hidden by ${labelOf(reason).toLowerCase()}`}</span><span class="faint">show</span>
    </button>`)}
  </div>`;
}
