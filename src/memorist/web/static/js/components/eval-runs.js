/** Search quality: runs that `memorist eval --save` wrote, as the server lists them or opened from files, and plotted. */

import { html, useState } from "../../vendor/preact.js";
import { announce } from "../core/acts.js";
import { get } from "../core/api.js";
import { useLoaded } from "../core/loading.js";
import { createKeptStore, safeStorage, useStore } from "../core/store.js";
import { formatDay } from "../core/format.js";
import { Plot } from "./plot.js";

const MEASURE = "ndcg@10";
const MEASURE_LABEL = "nDCG@10";
const MOST_RUNS = 30;
const MOST_LINES = 3;

/**
 * @typedef {object} RunSummary
 * @property {string} name
 * @property {number} at  when it was saved, in seconds since 1970
 * @property {string} version
 * @property {Array<{set: string, way: string, mean: number, low: number, high: number}>} results
 */

/** The runs that were opened, the earliest first; kept in this browser. @type {import("../core/store.js").Store<RunSummary[]>} */
const openedRuns = createKeptStore("eval_runs", [], safeStorage("localStorage"));

export function EvalRuns() {
  const opened = useStore(openedRuns);
  const saved = useLoaded((signal) => readSavedRuns(signal), ["eval-runs"], [], { followsTime: false });
  const runs = [...(saved.data ?? []).filter((run) => !opened.some((other) => other.name === run.name)), ...opened].sort((a, b) => a.at - b.at);
  const [shown, setShown] = useState("");
  const open = async (event) => {
    const files = [...event.target.files];
    event.target.value = "";
    for (const file of files) {
      const run = await readRun(file);
      if (run) openedRuns.set((all) => [...all.filter((other) => other.name !== run.name), run].sort((a, b) => a.at - b.at).slice(-MOST_RUNS));
      else announce(`${file.name} is not a run that memorist eval saved.`, { tone: "error" });
    }
  };
  const sets = [...new Set(runs.flatMap((run) => run.results.map((result) => result.set)))];
  const set = sets.includes(shown) ? shown : sets.at(-1);
  return html`<section class="stack eval-runs" aria-labelledby="eval-runs">
    <div class="row"><div><h2 id="eval-runs">Search quality</h2><p class="faint small">Runs that <code>memorist eval DATASET --save NAME</code> saved. Those saved as files can be opened here, and stay in this browser.</p></div>
      <span class="row row-end">${opened.length > 0 && html`<button type="button" class="button is-quiet" onClick=${() => openedRuns.set([])}>Close opened files</button>`}
        <label class="button" for="eval-files">Open runs</label><input id="eval-files" class="visually-hidden" type="file" accept=".json" multiple onChange=${open} /></span></div>
    ${sets.length > 1 && html`<div class="chips" role="group" aria-label="Datasets">${sets.map((name) => html`<button type="button" key=${name} class=${`chip ${name === set ? "is-set" : ""}`} aria-pressed=${String(name === set)} onClick=${() => setShown(name)}><span><bdi>${name}</bdi></span></button>`)}</div>`}
    ${set && html`<${SetResults} set=${set} runs=${runs.filter((run) => run.results.some((result) => result.set === set))} />`}
  </section>`;
}

function SetResults({ set, runs }) {
  const latest = runs.at(-1);
  const results = latest.results.filter((result) => result.set === set).sort((a, b) => b.mean - a.mean);
  const series = results.slice(0, MOST_LINES).map(({ way }) => ({ label: way, values: runs.map((run) => run.results.find((result) => result.set === set && result.way === way)?.mean ?? null) }));
  return html`<div class="plots">
    <div class="card card-body stack-s">
      <h3><bdi>${latest.name}</bdi></h3><p class="small faint">${MEASURE_LABEL} with its 95 % interval, ${formatDay(new Date(latest.at * 1000).toISOString())}, version <bdi>${latest.version}</bdi></p>
      <table class="why-table interval-table"><caption class="visually-hidden">${MEASURE_LABEL} of each way to search</caption>
        <tbody>${results.map((result) => html`<tr key=${result.way}><th scope="row"><bdi>${result.way}</bdi></th><td><${Interval} ...${result} /></td><td>${result.mean.toFixed(3)}</td></tr>`)}</tbody></table>
    </div>
    ${runs.length > 1 && html`<${Plot} title="Over runs" note=${`${MEASURE_LABEL} of the best ways`} days=${runs.map((run) => run.at)} series=${series} format=${(value) => value.toFixed(2)} />`}
  </div>`;
}

/** A mean and its interval on a scale from 0 to 1. */
function Interval({ mean, low, high }) {
  return html`<svg class="interval" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">
    <line class="floor" x1="0" y1="5" x2="100" y2="5" /><line class="curve" x1=${low * 100} y1="5" x2=${high * 100} y2="5" /><rect x=${mean * 100 - 0.7} y="1" width="1.4" height="8" />
  </svg>`;
}

/** Read the runs that the server knows. @returns {Promise<RunSummary[]>} */
async function readSavedRuns(signal) {
  const { items } = await get("eval-runs", { signal });
  return items.map(({ name, saved_at, version, results }) => ({ name, at: Math.round(Date.parse(saved_at) / 1000), version, results: results.map(({ dataset, system, ...numbers }) => ({ set: dataset, way: system, ...numbers })) }));
}

/** Read what is plotted of a run; null if the file is something else. @param {File} file @returns {Promise<RunSummary | null>} */
async function readRun(file) {
  try {
    const run = JSON.parse(await file.text());
    if (!run.memorist_eval) return null;
    const results = run.sets.flatMap((set) => set.ways.map((way) => ({ set: String(set.name), way: String(way.name), ...numbersOf(way.measures[MEASURE]) })));
    return { name: file.name.replace(/\.json$/, ""), at: Math.round(file.lastModified / 1000), version: String(run.version), results };
  } catch {
    return null;
  }
}

const numbersOf = ({ mean, low, high }) => ({ mean: Number(mean), low: Number(low), high: Number(high) });
