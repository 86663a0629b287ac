/** The timeline, and the slider that sets the whole page to a time. */

import { html, useCallback, useEffect, useMemo, useRef, useState } from "../../vendor/preact.js";
import { MEMORY_ROW_HEIGHT, MemoryRow } from "../components/memory-row.js";
import { useMovingFocus } from "../components/moving-focus.js";
import { Answer, Empty } from "../components/states.js";
import { VirtualList } from "../components/virtual-list.js";
import { ask, get, timeParameters } from "../core/api.js";
import { asOf, memoriesRevision } from "../core/app-state.js";
import { countOf, formatDay, formatLongDay, formatMoment } from "../core/format.js";
import { useLoaded } from "../core/loading.js";
import { useStore } from "../core/store.js";

const PAGE = 500;
const DAY_MS = 86_400_000;
const SETTLE_MS = 200;
const DAY_ROW_HEIGHT = 56;

export function TimelineView() {
  const revision = useStore(memoriesRevision);
  const list = useRef(null);
  const months = useLoaded((signal) => ask("facets", { fields: ["month"], include_superseded: true }, { signal }), ["months"], [revision], { followsTime: false });
  useMovingFocus(list);
  return html`
    <div class="view-head"><h1>Timeline</h1><p>Everything in the order it happened. Move the slider to see the whole page as it stood then.</p></div>
    <${Answer} loaded=${months} rows=${1}>${(facets) => html`<${TimePanel} counts=${facets.month ?? {}} />`}<//>
    <div ref=${list}><${Days} revision=${revision} /></div>`;
}

/** The months as a histogram, above the slider. */
function TimePanel({ counts }) {
  const moment = useStore(asOf);
  const { first, last, months } = useMemo(() => spanOf(counts), [counts]);
  const [shown, setShown] = useState(moment ? Date.parse(moment) : last);
  useEffect(() => setShown(moment ? Date.parse(moment) : last), [moment, last]);
  useEffect(() => {
    const chosen = shown >= last - DAY_MS / 2 ? null : new Date(shown).toISOString();
    if (chosen === asOf.get()) return undefined;
    const timer = setTimeout(() => asOf.set(chosen), SETTLE_MS);
    return () => clearTimeout(timer);
  }, [shown]);
  const most = Math.max(1, ...months.map((month) => month.count));
  const width = 100 / Math.max(1, months.length);
  const label = shown >= last - DAY_MS / 2 ? "Now" : formatMoment(new Date(shown).toISOString());
  return html`<section class="card time-panel" aria-label="The time the page shows">
    <div class="row"><label for="as-of" class="label">As of</label><output for="as-of"><strong>${label}</strong></output>
      ${moment && html`<button type="button" class="button is-quiet row-end" onClick=${() => asOf.set(null)}>Back to now</button>`}</div>
    <svg class="time-histogram" viewBox="0 0 100 40" preserveAspectRatio="none" aria-hidden="true">
      ${months.map((month, at) => html`<rect key=${month.name} class=${month.start <= shown ? "is-past" : ""} x=${at * width + width * 0.08} width=${width * 0.84}
        y=${40 - (month.count / most) * 40} height=${(month.count / most) * 40}><title>${month.name}: ${month.count}</title></rect>`)}
    </svg>
    <input id="as-of" type="range" min=${first} max=${last} step=${DAY_MS / 4} value=${shown} aria-valuetext=${label} onInput=${(event) => setShown(Number(event.target.value))} />
    <div class="time-ends"><span>${formatDay(new Date(first).toISOString())}</span><span>Now</span></div>
  </section>`;
}

/** Memories by day, the latest first. */
function Days({ revision }) {
  const moment = useStore(asOf);
  const pages = useTimeline(revision, moment);
  const rows = useMemo(() => rowsOf(pages.memories ?? []), [pages.memories]);
  const heightOf = useCallback((at) => (rows[at].day ? DAY_ROW_HEIGHT : MEMORY_ROW_HEIGHT), [rows]);
  return html`<${Answer} loaded=${{ data: pages.memories, error: pages.error, reload: pages.reload }} rows=${6}>${() =>
    rows.length
      ? html`<${VirtualList} count=${rows.length} heightOf=${heightOf} label="Memories by day" keyOf=${(at) => rows[at].key} onEnd=${pages.loadMore}
          renderRow=${(at) => (rows[at].day ? html`<h2 class="day-row">${formatLongDay(rows[at].day)}<span class="faint">${countOf(rows[at].count, "memory", "memories")}</span></h2>` : html`<${MemoryRow} memory=${rows[at].memory} />`)} />`
      : html`<${Empty} icon="clock" title="Nothing had happened yet"><p>No memory is as old as this.</p><//>`}<//>`;
}

/** Read the timeline backwards from the latest, a page at a time. */
function useTimeline(revision, moment) {
  const [end, setEnd] = useState(null);
  const [older, setOlder] = useState([]);
  const read = (signal, until) => get("memories", { query: { limit: PAGE, cursor: until, include_superseded: true, detail: "snippet", ...timeParameters() }, signal });
  const first = useLoaded((signal) => read(signal, null), ["timeline"], [revision]);
  useEffect(() => {
    setOlder([]);
    setEnd(first.data?.cursor ?? null);
  }, [first.data]);
  const busy = useRef(false);
  const loadMore = async () => {
    if (!end || busy.current) return;
    busy.current = true;
    const page = await read(undefined, end).catch(() => null);
    busy.current = false;
    if (!page || asOf.get() !== moment) return;
    setOlder((before) => [...before, ...page.memories]);
    setEnd(page.cursor);
  };
  const memories = useMemo(() => (first.data ? [...first.data.memories, ...older] : null), [first.data, older]);
  return { memories, error: first.error, reload: first.reload, loadMore };
}

/** Return a row for each memory, and one before each day. */
function rowsOf(memories) {
  const rows = [];
  let heading = null;
  for (const memory of memories) {
    const day = new Date(memory.created_at).toDateString();
    if (heading?.key !== day) rows.push((heading = { key: day, day: memory.created_at, count: 0 }));
    heading.count += 1;
    rows.push({ key: memory.id, memory });
  }
  return rows;
}

/** Return the months from the first memory to now, with their counts. */
function spanOf(counts) {
  const last = Math.ceil(Date.now() / DAY_MS) * DAY_MS;
  const names = Object.keys(counts).sort();
  const start = names.length ? new Date(`${names[0]}-01T00:00:00`) : new Date(last - 30 * DAY_MS);
  const months = [];
  for (let at = new Date(start); at.getTime() < last && months.length < 600; at.setMonth(at.getMonth() + 1)) {
    const name = `${at.getFullYear()}-${String(at.getMonth() + 1).padStart(2, "0")}`;
    months.push({ name, start: at.getTime(), count: counts[name] ?? 0 });
  }
  return { first: start.getTime(), last, months };
}
