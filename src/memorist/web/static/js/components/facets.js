/** Counts of what matches by project, kind, tag and so on; each narrows the search. */

import { html, useEffect, useState } from "../../vendor/preact.js";
import { formatNumber, labelOf } from "../core/format.js";

const SHOWN = 6;

/** The fields that a search asks counts of, and the name of the filter that each of them sets. */
export const FACET_FILTERS = { project: "project", kind: "kind", tag: "tags", month: "month", sector: "sector", source: "source" };

/**
 * @param {{facets: Record<string, Record<string, number>>, filters: Record<string, string[]>, onToggle: (field: string, value: string) => void}} props
 */
export function Facets({ facets, filters, onToggle }) {
  const wide = useMedia("(min-width: 981px)");
  const groups = Object.entries(FACET_FILTERS)
    .map(([field, filter]) => ({ field, filter, counts: Object.entries(facets?.[field] ?? {}).filter(([value]) => value !== "" && value !== "null") }))
    .filter(({ counts }) => counts.length > 0);
  if (!groups.length) return html`<div class="facets-side"></div>`;
  const body = html`<div class="facets">
    ${groups.map((group) => html`<${FacetGroup} key=${group.field} ...${group} filters=${filters} onToggle=${onToggle} />`)}
  </div>`;
  if (wide) return html`<aside class="facets-side" aria-label="Narrow the search">${body}</aside>`;
  return html`<aside class="facets-side" aria-label="Narrow the search"><details class="facets-folded"><summary>Narrow the search</summary>${body}</details></aside>`;
}

function FacetGroup({ field, filter, counts, filters, onToggle }) {
  const [all, setAll] = useState(false);
  counts.sort((a, b) => (field === "month" ? b[0].localeCompare(a[0]) : b[1] - a[1]));
  return html`<div role="group" aria-label=${labelOf(field)}>
    <div class="facet-title">${labelOf(field)}</div>
    ${(all ? counts : counts.slice(0, SHOWN)).map(([value, count]) => html`<button type="button" class="facet" key=${value}
      aria-pressed=${String(Boolean(filters[filter]?.includes(value)))} onClick=${() => onToggle(filter, value)}>
      <span><bdi>${value}</bdi></span><span class="number">${formatNumber(count)}</span>
    </button>`)}
    ${counts.length > SHOWN && html`<button type="button" class="facet faint" onClick=${() => setAll(!all)}><span>${all ? "Fewer" : `${counts.length - SHOWN} more`}</span></button>`}
  </div>`;
}

/** True while a media query matches. @param {string} query */
export function useMedia(query) {
  const [matches, setMatches] = useState(() => matchMedia(query).matches);
  useEffect(() => {
    const list = matchMedia(query);
    const listener = () => setMatches(list.matches);
    listener();
    list.addEventListener("change", listener);
    return () => list.removeEventListener("change", listener);
  }, [query]);
  return matches;
}
