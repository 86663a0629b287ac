/** Search as you type: hits with why they stand there, what filters held back, and counts to narrow by. */

import { html, useEffect, useMemo, useRef, useState } from "../../vendor/preact.js";
import { Facets, FACET_FILTERS } from "../components/facets.js";
import { FilterChips, HiddenChips } from "../components/filter-chips.js";
import { Icon } from "../components/icon.js";
import { MemoryList } from "../components/memory-list.js";
import { useMovingFocus } from "../components/moving-focus.js";
import { Hit } from "../components/hit.js";
import { Answer } from "../components/states.js";
import { ask, timeParameters } from "../core/api.js";
import { memoriesRevision, serverSettings, statistics } from "../core/app-state.js";
import { countOf, formatNumber, labelOf } from "../core/format.js";
import { useKeys } from "../core/keys.js";
import { useLoaded } from "../core/loading.js";
import { hrefOf, replaceHref } from "../core/router.js";
import { useStore } from "../core/store.js";
import { Comparison } from "./comparison.js";

const DEBOUNCE_MS = 90;
const PAGE = 30;
const MOST = 1000;
const FILTERS = ["project", "kind", "tags", "month", "sector", "source", "tier", "fact_kind"];

/**
 * @typedef {object} SearchState  all that the address says of a search
 * @property {string} query
 * @property {string} profile
 * @property {string} other  the profile to compare with; "" if there is none
 * @property {boolean} superseded
 * @property {string[]} lifted  thresholds that are switched off
 * @property {Record<string, string[]>} filters
 */

/** @param {{route: import("../core/router.js").Route, onNew: () => void}} props */
export function SearchView({ route, onNew }) {
  const state = useMemo(() => readState(route.parameters), [route]);
  const [text, setText] = useState(state.query);
  const [why, setWhy] = useState(false);
  const settings = useStore(serverSettings);
  const box = useRef(null);
  const list = useRef(null);
  const asked = useRef(state.query); // the query of the address, as the box last knew it
  const change = (changes) => replaceHref(hrefOfState({ ...state, ...changes }));

  useEffect(() => {
    if (text === state.query) return undefined;
    const timer = setTimeout(() => {
      asked.current = text;
      change({ query: text });
    }, DEBOUNCE_MS);
    return () => clearTimeout(timer);
  }, [text]);
  useEffect(() => {
    // Effects run late: what was typed since must not be taken back by the address that typing itself has set.
    if (state.query === asked.current) return;
    asked.current = state.query;
    setText(state.query);
  }, [state.query]);
  useEffect(() => {
    if (matchMedia("(min-width: 801px)").matches || route.parameters.has("focus")) box.current?.focus();
  }, []);
  useMovingFocus(list);
  useKeys({ w: () => setWhy(!why), c: () => change({ other: state.other ? "" : otherProfile(settings, state.profile) }) });

  const toggle = (field, value) => {
    const set = state.filters[field] ?? [];
    change({ filters: { ...state.filters, [field]: set.includes(value) ? set.filter((each) => each !== value) : [...set, value] } });
  };
  const onKeyDown = (event) => {
    if (event.key === "ArrowDown" || event.key === "Enter") {
      event.preventDefault();
      list.current?.querySelector("[data-row]")?.focus();
    }
  };
  return html`
    <h1 class="visually-hidden">Search</h1>
    <form role="search" onSubmit=${(event) => event.preventDefault()}>
      <div class="search-box">
        <${Icon} name="search" />
        <label class="visually-hidden" for="search">Search what is remembered</label>
        <input id="search" ref=${box} type="search" autocomplete="off" spellcheck=${false} enterkeyhint="search" value=${text}
          placeholder="Search what is remembered" onInput=${(event) => setText(event.target.value)} onKeyDown=${onKeyDown} />
        ${!text && html`<span class="search-hint" aria-hidden="true"><kbd>/</kbd></span>`}
      </div>
      <div class="search-options">
        <${ProfileSelect} label="Profile" value=${state.profile} settings=${settings} onChange=${(profile) => change({ profile })} />
        ${state.other && html`<${ProfileSelect} label="Compared with" value=${state.other} settings=${settings} onChange=${(other) => change({ other })} />`}
        <button type="button" class="button is-quiet" aria-pressed=${String(Boolean(state.other))} onClick=${() => change({ other: state.other ? "" : otherProfile(settings, state.profile) })}>Compare</button>
        <button type="button" class="button is-quiet" aria-pressed=${String(why)} onClick=${() => setWhy(!why)}>Why</button>
        <button type="button" class="button row-end" onClick=${onNew}><${Icon} name="plus" />New memory</button>
      </div>
    </form>
    <${FilterChips} filters=${state.filters} onLift=${toggle} />
    <div ref=${list}>
      ${state.query.trim()
        ? state.other
          ? html`<${Comparison} body=${bodyOf(state)} profiles=${[state.profile || defaultProfile(settings), state.other]} why=${why} />`
          : html`<${Found} state=${state} why=${why} change=${change} toggle=${toggle} />`
        : html`<${Everything} state=${state} toggle=${toggle} />`}
    </div>`;
}

/** The answer to a query. */
function Found({ state, why, change, toggle }) {
  const revision = useStore(memoriesRevision);
  const [limit, setLimit] = useState(PAGE);
  useEffect(() => setLimit(PAGE), [JSON.stringify(state)]);
  const body = { ...bodyOf(state), limit, ...timeParameters() };
  const loaded = useLatest(useLoaded((signal) => ask("search", body, { signal }), [state, limit], [revision]));
  const counted = useFacets(bodyOf(state), loaded.data, revision);
  return html`<div class="search-columns">
    <section aria-label="Hits">
      <${Status} loaded=${loaded} />
      <${Answer} loaded=${loaded}>${(results) => html`<${Hits} results=${results} why=${why} state=${state} change=${change}
        more=${results.hits.length >= limit && limit < MOST ? () => setLimit(Math.min(MOST, limit * 3)) : null} />`}<//>
    </section>
    <${Facets} facets=${counted} filters=${state.filters} onToggle=${toggle} />
  </div>`;
}

/** Return the counts of all that matches. They are asked for once hits are there, as counting takes longer than finding. */
function useFacets(body, hits, revision) {
  const asked = { ...body, limit: PAGE, detail: "index", facets: Object.keys(FACET_FILTERS), ...timeParameters() };
  const read = (signal) => (hits ? ask("search", asked, { signal }) : Promise.resolve(null));
  return useLatest(useLoaded(read, ["facets", body, hits?.query], [revision])).data?.facets;
}

function Hits({ results, why, state, change, more }) {
  const lift = (reason) => {
    if (reason.includes("superseded")) change({ superseded: true });
    else if (FILTERS.includes(reason) || reason === "tag") change({ filters: { ...state.filters, [reason === "tag" ? "tags" : reason]: [] } });
    else change({ lifted: [...state.lifted, reason] });
  };
  return html`
    ${results.degraded && html`<p class="note is-warn">${results.degraded}</p>`}
    ${results.suggestion && html`<p class="small">Did you mean <button type="button" class="link-button" onClick=${() => change({ query: results.suggestion })}><bdi>${results.suggestion}</bdi></button>?</p>`}
    ${!results.relevant && html`<div class="note"><strong>Nothing relevant is remembered.</strong> ${results.hits.length ? "What follows is nearest, but is probably not about your question." : "No memory comes near your question."}</div>`}
    <${HiddenChips} hidden=${results.hidden} onLift=${lift} />
    <ol class="hits" aria-label="Hits, best first">
      ${results.hits.map((hit) => html`<${Hit} key=${hit.memory.id} hit=${hit} query=${results.query} why=${why} />`)}
    </ol>
    ${more && html`<p class="row"><button type="button" class="button" onClick=${more}>Show more</button></p>`}`;
}

/** How many hits there are and how long they took, said aloud once they are there. */
function Status({ loaded }) {
  const { data, loading } = loaded;
  const said = data ? `${countOf(data.hits.length, "hit")} in ${data.took_ms < 10 ? data.took_ms.toFixed(1) : Math.round(data.took_ms)} ms` : "";
  return html`<p class="search-status"><span role="status" aria-live="polite">${said || (loading ? "Searching" : "")}</span>
    ${data?.profile && html`<span class="faint">${labelOf(data.mode)}, ${data.profile}</span>`}</p>`;
}

/** Without a query: everything, newest first. */
function Everything({ state, toggle }) {
  const stats = useStore(statistics);
  const revision = useStore(memoriesRevision);
  const counts = useLoaded((signal) => ask("facets", { fields: Object.keys(FACET_FILTERS), ...filtersOf(state), ...timeParameters() }, { signal }), [state.filters], [revision]);
  return html`<div class="search-columns">
    <section aria-label="All memories, newest first">
      <p class="search-status"><span>${stats ? `${countOf(stats.memories, "memory", "memories")}, newest first` : ""}${stats?.pending ? `, ${formatNumber(stats.pending)} waiting for their vectors` : ""}</span></p>
      <${MemoryList} filters=${filtersOf(state)} label="Memories, newest first" />
    </section>
    <${Facets} facets=${counts.data} filters=${state.filters} onToggle=${toggle} />
  </div>`;
}

function ProfileSelect({ label, value, settings, onChange }) {
  const profiles = (settings?.profiles ?? []).map((profile) => profile.name);
  const lenses = (settings?.lenses ?? []).map((lens) => lens.name);
  const id = `profile-${label.replaceAll(" ", "-").toLowerCase()}`;
  return html`<span class="row"><label class="small faint" for=${id}>${label}</label>
    <select id=${id} class="select" value=${value || defaultProfile(settings)} onChange=${(event) => onChange(event.target.value)}>
      ${profiles.map((name) => html`<option key=${name} value=${name}>${name}</option>`)}
      ${lenses.map((name) => html`<option key=${`lens:${name}`} value=${`lens:${name}`}>lens ${name}</option>`)}
    </select></span>`;
}

/** Keep showing the last answer while the next one is on its way, so that typing does not make the page flicker. */
function useLatest(loaded) {
  const last = useRef(null);
  if (loaded.data) last.current = loaded.data;
  return loaded.loading && !loaded.data && last.current ? { ...loaded, data: last.current } : loaded;
}

const defaultProfile = (settings) => settings?.settings?.profile ?? "balanced";

function otherProfile(settings, profile) {
  const chosen = profile || defaultProfile(settings);
  return (settings?.profiles ?? []).map((profile) => profile.name).find((name) => name !== chosen) ?? chosen;
}

/** @param {URLSearchParams} parameters @returns {SearchState} */
function readState(parameters) {
  const filters = Object.fromEntries(FILTERS.map((name) => [name, parameters.getAll(name)]).filter(([, values]) => values.length));
  return {
    query: parameters.get("q") ?? "",
    profile: parameters.get("profile") ?? "",
    other: parameters.get("other") ?? "",
    superseded: parameters.has("superseded"),
    lifted: parameters.getAll("lifted"),
    filters,
  };
}

function hrefOfState({ query, profile, other, superseded, lifted, filters }) {
  return hrefOf("search", "", { q: query, profile, other, superseded: superseded ? 1 : "", lifted, ...filters });
}

function filtersOf({ filters }) {
  return Object.fromEntries(Object.entries(filters).filter(([, values]) => values.length));
}

function bodyOf(state) {
  const ranking = state.profile.startsWith("lens:") ? { lens: state.profile.slice(5) } : state.profile ? { profile: state.profile } : {};
  const lifted = Object.fromEntries(state.lifted.map((name) => [name, 0]));
  return { query: state.query, ...ranking, ...filtersOf(state), ...(state.superseded ? { include_superseded: true } : {}), ...(state.lifted.length ? { options: lifted } : {}), include_documents: true };
}
