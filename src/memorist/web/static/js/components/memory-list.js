/** A list of memories by pages, which loads further ones as it is scrolled. */

import { html, useCallback, useEffect, useRef, useState } from "../../vendor/preact.js";
import { get, timeParameters } from "../core/api.js";
import { asOf, memoriesRevision } from "../core/app-state.js";
import { useStore } from "../core/store.js";
import { MEMORY_ROW_HEIGHT, MemoryRow } from "./memory-row.js";
import { Empty, Failure, Skeleton } from "./states.js";
import { VirtualList } from "./virtual-list.js";

const PAGE = 100;
const heightOfRow = () => MEMORY_ROW_HEIGHT;

/** @param {{filters?: Record<string, unknown>, label: string, total?: number | null}} props */
export function MemoryList({ filters = {}, label, total = null }) {
  const { memories, ended, error, loadMore, reload } = usePages(filters);
  if (memories === null) return error ? html`<${Failure} error=${error} reload=${reload} />` : html`<${Skeleton} rows=${8} />`;
  if (!memories.length) return html`<${Empty} title="Nothing here"><p>No memory passes these filters.</p><//>`;
  return html`<${VirtualList} count=${memories.length} total=${ended ? memories.length : total} heightOf=${heightOfRow} label=${label}
    keyOf=${(index) => memories[index].id} onEnd=${loadMore} renderRow=${(index) => html`<${MemoryRow} memory=${memories[index]} />`} />`;
}

/** Read pages of memories: the first at once, the others when they are asked for. */
function usePages(filters) {
  const revision = useStore(memoriesRevision);
  const moment = useStore(asOf);
  const key = JSON.stringify([filters, moment]);
  const [state, setState] = useState({ key: "", memories: null, cursor: null, ended: false, error: null });
  const busy = useRef(null);

  const load = (cursor, before) => {
    busy.current?.abort();
    const abort = (busy.current = new AbortController());
    // A change behind a list that was scrolled far must not throw it back to its first page.
    const limit = before || !state.memories || state.key !== key ? PAGE : Math.min(1000, Math.max(PAGE, state.memories.length));
    get("memories", { query: { ...filters, ...timeParameters(), limit, cursor }, signal: abort.signal }).then(
      (page) => {
        busy.current = null;
        setState({ key, memories: [...(before ?? []), ...page.memories], cursor: page.cursor, ended: !page.cursor, error: null });
      },
      (error) => {
        if (error.name === "AbortError") return;
        busy.current = null;
        setState((last) => ({ ...last, error }));
      },
    );
  };
  useEffect(() => {
    load(null, null);
    return () => busy.current?.abort();
  }, [key, revision]);

  const loadMore = useCallback(() => {
    if (!busy.current && state.cursor && state.key === key) load(state.cursor, state.memories);
  }, [state, key]);
  return { ...(state.key === key ? state : { memories: null, ended: false, error: state.error }), loadMore, reload: () => load(null, null) };
}
