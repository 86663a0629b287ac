/** Insights: how the memory grows, what is recalled, and how often a recall found something relevant. */

import { html, useEffect, useMemo } from "../../vendor/preact.js";
import { EvalRuns } from "../components/eval-runs.js";
import { Plot } from "../components/plot.js";
import { Answer, Empty } from "../components/states.js";
import { get } from "../core/api.js";
import { memoriesRevision, recallsRevision, statistics } from "../core/app-state.js";
import { formatBytes, formatNumber, formatPercent } from "../core/format.js";
import { useLoaded } from "../core/loading.js";
import { useStore } from "../core/store.js";

const DAY_S = 86_400;
const LEAST_DAYS = 30; // that a plot shows
const WINDOW_DAYS = 14; // recalls of two weeks are counted together, since a single day has few

export function InsightsView() {
  const revision = useStore(memoriesRevision);
  const recalls = useStore(recallsRevision);
  const stats = useStore(statistics);
  const loaded = useLoaded((signal) => get("growth", { signal }), ["growth"], [revision, recalls]);
  useStyleSheet("vendor/uplot.css");
  return html`
    <div class="view-head"><h1>Insights</h1></div>
    ${stats && html`<${Numbers} stats=${stats} />`}
    <${Answer} loaded=${loaded}>${({ days }) => days.length === 0
      ? html`<${Empty} icon="insights" title="Nothing to plot yet"><p>Plots begin with the first memory.</p><//>`
      : html`<${Plots} days=${days} stats=${stats} />`}<//>
    <${EvalRuns} />`;
}

function Numbers({ stats }) {
  const embedded = stats.memories ? (stats.memories - stats.pending) / stats.memories : 1;
  const tiles = [
    ["Memories", formatNumber(stats.memories), `${formatNumber(stats.superseded)} superseded, ${formatNumber(stats.pinned)} pinned`],
    ["Facts", formatNumber(stats.facts), `${formatNumber(stats.relations)} relations`],
    ["Sessions", formatNumber(stats.sessions), `${formatNumber(stats.recalls)} recalls`],
    ["Documents", formatNumber(stats.documents), `${formatNumber(stats.chunks)} chunks`],
    ["With a vector", formatPercent(embedded), stats.pending ? `${formatNumber(stats.pending)} waiting` : "none waiting"],
    ["Size", formatBytes(stats.size_bytes), `${formatNumber(stats.deleted)} forgotten`],
  ];
  return html`<dl class="numbers">${tiles.map(([name, value, note]) => html`<div class="number-tile" key=${name}><dt>${name}</dt><dd>${value}<small class="small">${note}</small></dd></div>`)}</dl>`;
}

function Plots({ days, stats }) {
  const plots = useMemo(() => seriesOf(days, stats?.memories ?? 0), [days, stats?.memories]);
  return html`<div class="plots">
    <${Plot} title="Growth" note="memories by the day they happened, added up" ...${plots.growth} />
    <${Plot} title="Added" note="memories stored each day" ...${plots.added} />
    <${Plot} title="Recalls" note="recorded searches each day" ...${plots.recalls} />
    <${Plot} title="Coverage" note="recalls of two weeks that found something relevant" ...${plots.coverage} format=${formatPercent} />
  </div>`;
}

/** Return a value for every day from the first to today, since days on which nothing happened are not listed. */
function seriesOf(listed, memories) {
  const byDay = new Map(listed.map((day) => [day.day, day]));
  const first = Date.parse(listed[0].day) / 1000;
  const count = Math.floor((Date.now() / 1000 - first) / DAY_S) + 1;
  const days = Array.from({ length: Math.max(2, count) }, (_, at) => first + at * DAY_S);
  const on = days.map((day) => byDay.get(new Date(day * 1000).toISOString().slice(0, 10)) ?? { created: 0, recorded: 0, recalls: 0, relevant: 0 });
  const created = on.reduce((sum, day) => sum + day.created, 0);
  let sum = Math.max(0, memories - created); // what happened before the first day that is listed
  return {
    growth: fromFirst(days, { label: "memories", values: on.map((day) => (sum += day.created)) }),
    added: fromFirst(days, { label: "added", values: on.map((day) => day.recorded), bars: true }),
    recalls: fromFirst(days, { label: "recalls", values: on.map((day) => day.recalls), bars: true }),
    coverage: fromFirst(days, { label: "covered", values: on.map((_, at) => shareOf(on.slice(Math.max(0, at - WINDOW_DAYS + 1), at + 1))) }),
  };
}

/** Return what a plot shows: from the first day that has anything on, and of a month at least. */
function fromFirst(days, series) {
  const first = series.values.findIndex((value) => value);
  const from = Math.max(0, Math.min(first < 0 ? days.length : first, days.length - LEAST_DAYS));
  return { days: days.slice(from), series: [{ ...series, values: series.values.slice(from) }] };
}

function shareOf(days) {
  const asked = days.reduce((sum, day) => sum + day.recalls, 0);
  return asked ? days.reduce((sum, day) => sum + day.relevant, 0) / asked : null;
}

/** Load a style sheet once, when the first view that needs it is opened. */
function useStyleSheet(href) {
  useEffect(() => {
    if (document.querySelector(`link[href="${href}"]`)) return;
    const link = document.createElement("link");
    link.rel = "stylesheet";
    link.href = href;
    document.head.append(link);
  }, [href]);
}
