/** A list of links that comes in pages, with a button for the next one. */

import { html, useEffect, useState } from "../../vendor/preact.js";
import { announceError } from "../core/acts.js";
import { get } from "../core/api.js";
import { useLoaded } from "../core/loading.js";
import { Answer } from "./states.js";

const PAGE = 100;

/**
 * @param {object} props
 * @param {string} props.path
 * @param {string} props.field  the name of the list in an answer
 * @param {number} props.revision
 * @param {any} props.empty  what to show if there is nothing
 * @param {string} props.label
 * @param {(item: any) => any} props.renderItem
 */
export function PagedLinks({ path, field, revision, empty, label, renderItem }) {
  const first = useLoaded((signal) => get(path, { query: { limit: PAGE }, signal }), [path], [revision]);
  const [further, setFurther] = useState({ items: [], cursor: null });
  useEffect(() => setFurther({ items: [], cursor: first.data?.cursor ?? null }), [first.data]);
  const more = async () => {
    try {
      const page = await get(path, { query: { limit: PAGE, cursor: further.cursor } });
      setFurther({ items: [...further.items, ...page[field]], cursor: page.cursor });
    } catch (error) {
      announceError(error);
    }
  };
  return html`<${Answer} loaded=${first} rows=${5}>${(page) => {
    const items = [...page[field], ...further.items];
    if (!items.length) return empty;
    return html`<ul aria-label=${label}>${items.map((item) => html`<li key=${item.id}>${renderItem(item)}</li>`)}</ul>
      ${further.cursor && html`<p class="row"><button type="button" class="button" onClick=${more}>Show more</button></p>`}`;
  }}<//>`;
}
