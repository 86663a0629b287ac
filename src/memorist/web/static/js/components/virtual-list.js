/** A list of any length of which only the visible rows exist. Rows have one height, so that nothing is ever measured twice. */

import { html, useEffect, useRef, useState } from "../../vendor/preact.js";

const OVERSCAN = 8;

/**
 * @param {object} props
 * @param {number} props.count
 * @param {number} props.rowHeight  in pixels
 * @param {(index: number) => any} props.renderRow
 * @param {(index: number) => string | number} [props.keyOf]
 * @param {() => void} [props.onEnd]  called when the last row comes near, to load more
 * @param {string} props.label
 * @param {number | null} [props.total]  the number of rows once all are loaded, if it is known
 */
export function VirtualList({ count, rowHeight, renderRow, keyOf = (index) => index, onEnd, label, total = count }) {
  const list = useRef(null);
  const [range, setRange] = useState({ first: 0, last: Math.min(count, 30) });

  useEffect(() => {
    const measure = () => {
      if (!list.current) return;
      const top = list.current.getBoundingClientRect().top;
      const first = Math.max(0, Math.floor(-top / rowHeight) - OVERSCAN);
      const last = Math.min(count, Math.ceil((innerHeight - top) / rowHeight) + OVERSCAN);
      setRange((before) => (before.first === first && before.last === last ? before : { first, last }));
      if (last >= count - OVERSCAN) onEnd?.();
    };
    measure();
    addEventListener("scroll", measure, { passive: true, capture: true });
    addEventListener("resize", measure);
    return () => {
      removeEventListener("scroll", measure, { capture: true });
      removeEventListener("resize", measure);
    };
  }, [count, rowHeight, onEnd]);

  const rows = [];
  for (let index = range.first; index < Math.min(range.last, count); index += 1) {
    rows.push(html`<li key=${keyOf(index)} aria-posinset=${index + 1} aria-setsize=${total ?? -1}
      style=${{ height: `${rowHeight}px`, transform: `translateY(${index * rowHeight}px)` }}>${renderRow(index)}</li>`);
  }
  return html`<ol class="virtual-list" ref=${list} aria-label=${label} style=${{ height: `${count * rowHeight}px` }}>${rows}</ol>`;
}
