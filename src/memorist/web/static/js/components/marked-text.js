/**
 * Stored text with its matches marked. Memories are hostile text: everything here becomes a text node, and the only tag
 * that is recognised is the `<mark>` that the server put into a snippet.
 */

import { html } from "../../vendor/preact.js";

const MARKED = /<mark>(.*?)<\/mark>/gs;

/**
 * Text with ranges marked.
 * @param {{text: string, ranges?: Array<[number, number]>}} props  ranges count code points, as the server does
 */
export function HighlightedText({ text, ranges = [] }) {
  if (!ranges.length) return text;
  const points = Array.from(text);
  const parts = [];
  let at = 0;
  for (const [start, end] of [...ranges].sort((a, b) => a[0] - b[0])) {
    if (start < at || end <= start) continue;
    parts.push(points.slice(at, start).join(""), html`<mark>${points.slice(start, end).join("")}</mark>`);
    at = end;
  }
  parts.push(points.slice(at).join(""));
  return html`${parts}`;
}

/**
 * A snippet, whose matches stand between <mark> and </mark>.
 * @param {{snippet: string}} props
 */
export function Snippet({ snippet: given }) {
  const snippet = given.replace(/\n\s*\n/g, "\n"); // a passage is read at a glance, without its empty lines
  const parts = [];
  let at = 0;
  for (const match of snippet.matchAll(MARKED)) {
    parts.push(snippet.slice(at, match.index), html`<mark>${match[1]}</mark>`);
    at = match.index + match[0].length;
  }
  parts.push(snippet.slice(at));
  return html`${parts}`;
}
