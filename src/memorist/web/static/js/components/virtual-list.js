/** A list of any length of which only the visible rows exist. Heights are known beforehand, so nothing is ever measured. */

import { html, useEffect, useMemo, useRef, useState } from "../../vendor/preact.js";

const OVERSCAN_PIXELS = 600;

/**
 * @param {object} props
 * @param {number} props.count
 * @param {(index: number) => number} props.heightOf  the height of a row in pixels
 * @param {(index: number) => any} props.renderRow
 * @param {(index: number) => string | number} [props.keyOf]
 * @param {() => void} [props.onEnd]  called when the last row comes near, to load more
 * @param {string} props.label
 * @param {number | null} [props.total]  the number of rows once all are loaded; null if it is not known
 */
export function VirtualList({ count, heightOf, renderRow, keyOf = (index) => index, onEnd, label, total = count }) {
  const list = useRef(null);
  const tops = useMemo(() => addUp(count, heightOf), [count, heightOf]);
  const [range, setRange] = useState({ first: 0, last: Math.min(count, 20) });

  useEffect(() => {
    const measure = () => {
      if (!list.current) return;
      const top = list.current.getBoundingClientRect().top;
      const first = indexAt(tops, -top - OVERSCAN_PIXELS);
      const last = Math.min(count, indexAt(tops, innerHeight - top + OVERSCAN_PIXELS) + 1);
      setRange((before) => (before.first === first && before.last === last ? before : { first, last }));
      if (last >= count) onEnd?.();
    };
    measure();
    addEventListener("scroll", measure, { passive: true, capture: true });
    addEventListener("resize", measure);
    return () => {
      removeEventListener("scroll", measure, { capture: true });
      removeEventListener("resize", measure);
    };
  }, [tops, onEnd]);

  const rows = [];
  for (let index = range.first; index < Math.min(range.last, count); index += 1) {
    const style = { height: `${tops[index + 1] - tops[index]}px`, transform: `translateY(${tops[index]}px)` };
    rows.push(html`<li key=${keyOf(index)} aria-posinset=${index + 1} aria-setsize=${total ?? -1} style=${style}>${renderRow(index)}</li>`);
  }
  return html`<ol class="virtual-list" ref=${list} aria-label=${label} style=${{ height: `${tops[count]}px` }}>${rows}</ol>`;
}

/** Return where each row begins, and where the last one ends. */
function addUp(count, heightOf) {
  const tops = new Float64Array(count + 1);
  for (let index = 0; index < count; index += 1) tops[index + 1] = tops[index] + heightOf(index);
  return tops;
}

/** Return the row at a position, by bisection. */
function indexAt(tops, position) {
  let low = 0;
  let high = Math.max(0, tops.length - 2);
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (tops[middle] <= position) low = middle;
    else high = middle - 1;
  }
  return low;
}
