/** How the confidence of a fact has fallen and will fall, as a small curve. */

import { html } from "../../vendor/preact.js";
import { countOf, formatPercent } from "../core/format.js";

const DAY_MS = 86_400_000;
const POINTS = 48;

/** @param {{fact: any, rate: number, now?: number}} props  rate: the share lost each day */
export function DecayCurve({ fact, rate, now = Date.now() }) {
  const since = Math.max(0, (now - Date.parse(fact.reinforced_at)) / DAY_MS);
  const halfLife = rate > 0 ? Math.LN2 / rate : Infinity;
  const span = Math.max(since * 2, Math.min(halfLife * 2.5, 1460), 30);
  const at = (day) => fact.confidence * Math.exp(-rate * day);
  const points = Array.from({ length: POINTS + 1 }, (_, step) => {
    const day = (step / POINTS) * span;
    return `${((day / span) * 100).toFixed(2)},${(40 - at(day) * 38).toFixed(2)}`;
  });
  const x = (since / span) * 100;
  const said = `Confidence ${formatPercent(at(since))} now${Number.isFinite(halfLife) ? `, halved every ${countOf(Math.round(halfLife), "day")}` : ", which does not fade"}`;
  return html`<svg class="decay-curve" viewBox="0 0 100 40" preserveAspectRatio="none" role="img" aria-label=${said}>
    <title>${said}</title>
    <polygon class="area" points=${`0,40 ${points.join(" ")} 100,40`} />
    <line class="floor" x1="0" y1="40" x2="100" y2="40" />
    <line class="now" x1=${x} y1="0" x2=${x} y2="40" />
    <polyline class="curve" points=${points.join(" ")} />
  </svg>`;
}

/**
 * Return the share of confidence that a fact loses each day: its own, or that of its kind.
 * @param {any} fact
 * @param {Record<string, number>} rates  by kind, as the profile in use has them
 */
export function decayRateOf(fact, rates) {
  return fact.decay_rate ?? rates[fact.kind ?? "kv"] ?? rates.kv ?? 0;
}
