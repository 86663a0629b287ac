/** The difference between two texts, word by word. */

import { html, useMemo } from "../../vendor/preact.js";

const MAX_CELLS = 4_000_000; // beyond this, lines are compared instead of words

/** @param {{before: string, after: string}} props */
export function Diff({ before, after }) {
  const parts = useMemo(() => diffTexts(before, after), [before, after]);
  return html`<div class="diff">
    ${parts.map(([kind, text], at) => {
      if (kind === "insert") return html`<ins key=${at}>${text}</ins>`;
      if (kind === "delete") return html`<del key=${at}>${text}</del>`;
      return text;
    })}
  </div>`;
}

/**
 * Return the parts of both texts in order.
 * @param {string} before
 * @param {string} after
 * @returns {Array<["keep" | "insert" | "delete", string]>}
 */
export function diffTexts(before, after) {
  let a = before.match(/\s+|[^\s]+/g) ?? [];
  let b = after.match(/\s+|[^\s]+/g) ?? [];
  if (a.length * b.length > MAX_CELLS) {
    a = before.split(/(?<=\n)/);
    b = after.split(/(?<=\n)/);
  }
  if (a.length * b.length > MAX_CELLS) return [["delete", before], ["insert", after]];
  return joinChanges(walk(a, b, commonLengths(a, b)));
}

/** Return the length of the longest common subsequence of every pair of tails. */
function commonLengths(a, b) {
  const width = b.length + 1;
  const lengths = new Uint16Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      lengths[i * width + j] =
        a[i] === b[j]
          ? lengths[(i + 1) * width + j + 1] + 1
          : Math.max(lengths[(i + 1) * width + j], lengths[i * width + j + 1]);
    }
  }
  return lengths;
}

function walk(a, b, lengths) {
  const width = b.length + 1;
  const parts = [];
  let i = 0;
  let j = 0;
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      parts.push(["keep", a[i]]);
      i += 1;
      j += 1;
    } else if (j >= b.length || (i < a.length && lengths[(i + 1) * width + j] >= lengths[i * width + j + 1])) {
      parts.push(["delete", a[i]]);
      i += 1;
    } else {
      parts.push(["insert", b[j]]);
      j += 1;
    }
  }
  return parts;
}

/** Join neighbouring parts. Changes that only a space keeps apart are one change: what was, then what is. */
function joinChanges(parts) {
  const joined = [];
  let removed = "";
  let added = "";
  let space = "";
  const flush = () => {
    if (removed) joined.push(["delete", removed]);
    if (added) joined.push(["insert", added]);
    if (space) joined.push(["keep", space]);
    removed = added = space = "";
  };
  for (const [kind, text] of parts) {
    if (kind === "keep" && !text.trim() && (removed || added)) {
      space += text;
    } else if (kind === "keep") {
      flush();
      if (joined.at(-1)?.[0] === "keep") joined.at(-1)[1] += text;
      else joined.push(["keep", text]);
    } else {
      removed += removed ? space : "";
      added += added ? space : "";
      space = removed || added ? "" : space;
      if (kind === "delete") removed += text;
      else added += text;
    }
  }
  flush();
  return joined;
}
