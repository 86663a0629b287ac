/** What a score is made of: a bar split by what each signal gave, and the same as a table that adds up. */

import { html } from "../../vendor/preact.js";
import { formatPercent, labelOf } from "../core/format.js";

const OTHER = 6; // the colour of all signals that have none of their own
/** Signals that have a colour of their own in every answer, so that colours mean the same everywhere. */
const FIXED = { keyword: 1, vector: 2, expansion: 3, session: 4, time: 5 };

/**
 * @param {{trace: Record<string, number>, score: number, open: boolean, id: string}} props
 */
export function WhyBar({ trace, score, open, id }) {
  const signals = signalsOf(trace);
  const gains = signals.filter((signal) => signal.value > 0);
  const whole = Math.max(1, gains.reduce((sum, signal) => sum + signal.value, 0));
  const said = gains.map((signal) => `${signal.label} ${formatPercent(signal.value)}`).join(", ");
  let at = 0;
  return html`<div class="why">
    <svg class="why-bar" viewBox="0 0 100 6" preserveAspectRatio="none" role="img" aria-label=${`Score ${score.toFixed(2)}: ${said || "no signal"}`}>
      ${gains.map((signal) => {
        const x = at;
        at += (signal.value / whole) * 100;
        return html`<rect key=${signal.name} class=${`signal-${signal.colour}`} x=${x} y="0" width=${(signal.value / whole) * 100} height="6"><title>${`${signal.label} ${formatPercent(signal.value)}`}</title></rect>`;
      })}
    </svg>
    ${open && html`<${WhyTable} signals=${signals} score=${score} id=${id} />`}
  </div>`;
}

function WhyTable({ signals, score, id }) {
  return html`<table class="why-table" id=${`why-${id}`}>
    <caption class="visually-hidden">What each signal added to the score</caption>
    <tbody>
      ${signals.map((signal) => html`<tr key=${signal.name}>
        <th scope="row"><svg class=${`why-key signal-${signal.colour}`} viewBox="0 0 10 10" aria-hidden="true"><rect width="10" height="10" rx="2" /></svg>${signal.label}</th>
        <td>${signal.value < 0 ? "−" : "+"}${Math.abs(signal.value).toFixed(3)}</td>
      </tr>`)}
    </tbody>
    <tfoot><tr><th scope="row">Score</th><td>${score.toFixed(3)}</td></tr></tfoot>
  </table>`;
}

/** Return the signals of a trace that gave or took something, the largest first. */
function signalsOf(trace) {
  const named = Object.entries(trace ?? {}).filter(([, value]) => Math.abs(value) >= 0.0005);
  named.sort((a, b) => b[1] - a[1]);
  return named.map(([name, value]) => ({ name, value, label: labelOf(name), colour: FIXED[name] ?? OTHER }));
}

/**
 * The probability that a hit is about the question, as a ring and a number.
 * @param {{relevance: number}} props
 */
export function Relevance({ relevance }) {
  const around = 2 * Math.PI * 14;
  return html`<span class=${`relevance ${relevance >= 0.5 ? "is-relevant" : ""}`} title="How likely this is about your question">
    <svg class="ring" viewBox="0 0 32 32" aria-hidden="true">
      <circle cx="16" cy="16" r="14" />
      <circle class="ring-share" cx="16" cy="16" r="14" transform="rotate(-90 16 16)" stroke-dasharray=${`${relevance * around} ${around}`} />
    </svg>
    <span><span class="visually-hidden">Relevance </span>${formatPercent(relevance)}</span>
  </span>`;
}
