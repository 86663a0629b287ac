/** Moving through a list with j and k: the focus itself moves, so that screen readers follow. */

import { useKeys } from "../core/keys.js";

/**
 * Move the focus between the elements that match, with j and k.
 * @param {{current: HTMLElement | null}} container
 * @param {string} [selector]
 */
export function useMovingFocus(container, selector = "[data-row]") {
  useKeys({
    j: () => moveFocus(container.current, selector, 1),
    k: () => moveFocus(container.current, selector, -1),
  });
}

/**
 * @param {HTMLElement | null} container
 * @param {string} selector
 * @param {1 | -1} step
 */
export function moveFocus(container, selector, step) {
  if (!container) return;
  const rows = [...container.querySelectorAll(selector)];
  rows.sort((a, b) => a.getBoundingClientRect().top - b.getBoundingClientRect().top || a.getBoundingClientRect().left - b.getBoundingClientRect().left);
  const active = rows.findIndex((row) => row === document.activeElement || row.contains(document.activeElement));
  const next = rows[active < 0 ? (step > 0 ? firstVisible(rows) : rows.length - 1) : active + step];
  if (!next) return;
  next.focus();
  next.scrollIntoView({ block: "nearest" });
}

function firstVisible(rows) {
  const at = rows.findIndex((row) => row.getBoundingClientRect().bottom > 60);
  return at < 0 ? 0 : at;
}
