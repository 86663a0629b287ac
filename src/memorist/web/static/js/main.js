/** The page: frame, routes, keys. Views with large libraries are loaded when they are first opened. */

import { html, render, useEffect, useRef, useState } from "../vendor/preact.js";
import { Banners } from "./components/banners.js";
import { Help } from "./components/help.js";
import { Navigation, VIEWS } from "./components/navigation.js";
import { NewMemory } from "./components/new-memory.js";
import { Notices } from "./components/notices.js";
import { Failure, Skeleton } from "./components/states.js";
import { undoLast } from "./core/acts.js";
import { asOf, connection, memoriesRevision, statistics } from "./core/app-state.js";
import { followEvents, readServer, readStatistics } from "./core/events.js";
import { useKeys } from "./core/keys.js";
import { go, hrefOf, route } from "./core/router.js";
import { useStore } from "./core/store.js";
import { SearchView } from "./views/search.js";
import { WelcomeView } from "./views/welcome.js";

const COME_BACK_MS = 3000;
const STATISTICS_DELAY_MS = 200;
const STATISTICS_PAUSE_MS = 3000;

/** @type {Record<string, {title: string, load: () => Promise<any>, component?: any}>} */
const ROUTES = {
  search: { title: "Search", component: SearchView, load: async () => {} },
  timeline: { title: "Timeline", load: async () => (await import("./views/timeline.js")).TimelineView },
  memory: { title: "Memory", load: async () => (await import("./views/memory.js")).MemoryView },
  conversations: { title: "Conversations", load: async () => (await import("./views/conversations.js")).ConversationsView },
  conversation: { title: "Conversation", load: async () => (await import("./views/conversation.js")).ConversationView },
  documents: { title: "Documents", load: async () => (await import("./views/documents.js")).DocumentsView },
  document: { title: "Document", load: async () => (await import("./views/document.js")).DocumentView },
  review: { title: "Review", load: async () => (await import("./views/review.js")).ReviewView },
  recalls: { title: "What your agent was told", load: async () => (await import("./views/recalls.js")).RecallsView },
  graph: { title: "Surroundings", load: async () => (await import("./views/graph.js")).GraphView },
  insights: { title: "Insights", load: async () => (await import("./views/insights.js")).InsightsView },
  import: { title: "Import", load: async () => (await import("./views/import.js")).ImportView },
  settings: { title: "Settings", load: async () => (await import("./views/settings.js")).SettingsView },
};

function App() {
  const current = useStore(route);
  const [help, setHelp] = useState(false);
  const [creating, setCreating] = useState(false);
  const reviewCount = useReviewCount();
  useStatistics();
  useKeys({
    ...Object.fromEntries(VIEWS.map((item) => [`g ${item.key}`, () => go(hrefOf(item.view))])),
    "/": focusSearch,
    "?": () => setHelp(true),
    u: () => undoLast(),
    n: () => setCreating(true),
    Escape: leave,
  });
  return html`
    <a class="skip-link" href="#view" onClick=${skipToView}>Skip to the view</a>
    <div class="frame">
      <${Navigation} current=${current.view} onHelp=${() => setHelp(true)} reviewCount=${reviewCount} />
      <div class="column">
        <${Banners} />
        <${CurrentView} current=${current} onNew=${() => setCreating(true)} />
      </div>
    </div>
    <${Notices} />
    ${help && html`<${Help} onClose=${() => setHelp(false)} />`}
    ${creating && html`<${NewMemory} onClose=${() => setCreating(false)} />`}
  `;
}

function CurrentView({ current, onNew }) {
  const main = useRef(null);
  const entry = ROUTES[current.view] ?? ROUTES.search;
  const { failure, retry } = useViewLoader(entry);
  const stats = useStore(statistics);
  const moment = useStore(asOf);
  const first = useRef(true);
  useEffect(() => {
    document.title = `${entry.title} · Memorist`;
    if (first.current) {
      first.current = false;
      return undefined;
    }
    if (current.returned) return comeBack(current.returned);
    // A new view begins at its top, and screen readers are taken there, unless it has chosen a place itself.
    if (!main.current?.contains(document.activeElement)) main.current?.focus({ preventScroll: true });
    scrollTo(0, 0);
    return undefined;
  }, [current.view, current.id]);
  const isEmpty = stats !== null && stats.memories === 0 && !stats.documents && !stats.deleted && !moment && current.view === "search";
  const View = isEmpty ? WelcomeView : entry.component;
  return html`<main class="view" id="view" ref=${main} tabindex="-1" data-view=${View ? current.view : undefined}>
    ${View ? html`<${View} key=${`${current.view}/${current.id}`} route=${current} onNew=${onNew} />` : failure ? html`<${Failure} error=${failure} reload=${retry} />` : html`<${Skeleton} />`}
  </main>`;
}

/** Load the module of a view when it is first opened, and again when the server comes back after it failed. */
function useViewLoader(entry) {
  const [state, setState] = useState({ entry, failure: null, attempt: 0 });
  const answered = useStore(connection);
  useEffect(() => {
    if (entry.component) return;
    entry.load().then(
      (component) => {
        entry.component = component;
        setState((before) => ({ ...before, entry, failure: null }));
      },
      (failure) => setState((before) => ({ ...before, entry, failure })),
    );
  }, [entry, answered, state.attempt]);
  const retry = () => setState((before) => ({ ...before, failure: null, attempt: before.attempt + 1 }));
  return { failure: state.entry === entry ? state.failure : null, retry };
}

/**
 * Go back to where a view was left, as soon as it has loaded so far: the same place, the focus on the link that was followed.
 * @param {{top: number, from: string}} place
 * @returns {() => void} gives it up
 */
function comeBack({ top, from }) {
  const until = performance.now() + COME_BACK_MS;
  let frame = 0;
  const attempt = () => {
    scrollTo(0, top);
    const link = document.querySelector(`main a[href=${JSON.stringify(from)}]`);
    if (link && Math.abs(scrollY - top) < 2) link.focus({ preventScroll: true });
    else if (performance.now() < until) frame = requestAnimationFrame(attempt);
  };
  attempt();
  return () => cancelAnimationFrame(frame);
}

/** Read the numbers of the store again after changes, but not for each of many. */
function useStatistics() {
  const revision = useStore(memoriesRevision);
  const readAt = useRef(-Infinity);
  useEffect(() => {
    const timer = setTimeout(() => {
      readAt.current = performance.now();
      readStatistics().catch(() => {});
    }, Math.max(STATISTICS_DELAY_MS, readAt.current + STATISTICS_PAUSE_MS - performance.now()));
    return () => clearTimeout(timer);
  }, [revision]);
}

/** Return how many things wait for a review, or null until the review has been opened. */
function useReviewCount() {
  const [count, setCount] = useState(null);
  useEffect(() => {
    const listener = (event) => setCount(event.detail);
    addEventListener("memorist:review-count", listener);
    return () => removeEventListener("memorist:review-count", listener);
  }, []);
  return count;
}

function focusSearch() {
  const box = document.querySelector("#search");
  if (box) {
    box.focus();
    box.select();
  } else {
    go(hrefOf("search", "", { focus: 1 }));
  }
}

/** Leave a field, or go back from one memory to where it was opened. */
function leave(event) {
  if (event.target instanceof HTMLElement && event.target.matches("input, textarea, select")) event.target.blur();
  else if (["memory", "graph", "conversation", "document"].includes(route.get().view) && history.length > 1) history.back();
}

function skipToView(event) {
  event.preventDefault();
  document.querySelector("#view")?.focus();
}

followEvents();
readServer().catch(() => {});
connection.subscribe((state) => {
  if (state === "ok") readServer().catch(() => {});
});
render(html`<${App} />`, document.querySelector("#app"));
