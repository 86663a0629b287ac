/** The stream of server-sent events: what this and other processes write and recall, followed live. */

import { addressOf, get } from "./api.js";
import { connection, memoriesRevision, recallsRevision, serverSettings, statistics } from "./app-state.js";

const FIRST_RETRY_MS = 500;
const LONGEST_RETRY_MS = 4000;
const GATHER_MS = 150; // a burst of writes is one change to the page
const LEAST_PAUSE_MS = 1000; // between two changes, so that a long import does not keep the server busy with this page

/** @type {EventSource | null} */
let source = null;
let retryMs = FIRST_RETRY_MS;
/** @type {Set<(change: any) => void>} */
const listeners = new Set();
/** When each revision was raised last, and whether it waits to be. @type {Map<import("./store.js").Store<number>, {at: number, waits: boolean}>} */
const raised = new Map();

/** Open the stream, and open it again whenever it breaks. */
export function followEvents() {
  source = new EventSource(addressOf("events"), { withCredentials: true });
  source.onopen = onOpen;
  source.onerror = onBreak;
  source.addEventListener("change", onEvent);
}

/**
 * Call a function with every event.
 * @param {(change: any) => void} listener
 * @returns {() => void} ends it
 */
export function onServerEvent(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Read what the page shows of the server itself. */
export async function readServer() {
  const [access, profiles, lenses, settings] = await Promise.all(["access", "profiles", "lenses", "settings"].map((path) => get(path)));
  serverSettings.set({ ...access, ...settings, profiles: profiles.items, lenses: lenses.items });
  await readStatistics();
}

/** Read the numbers of the store. */
export async function readStatistics() {
  statistics.set((await get("stats")).stats);
}

function onOpen() {
  const wasAway = connection.get() !== "ok" || retryMs > FIRST_RETRY_MS;
  retryMs = FIRST_RETRY_MS;
  connection.set("ok");
  if (wasAway) {
    raise(memoriesRevision);
    raise(recallsRevision);
  }
}

/** The browser would retry by itself, but not after every kind of refusal; so this page decides when. */
function onBreak() {
  source?.close();
  source = null;
  if (connection.get() === "ok") connection.set("lost");
  setTimeout(async () => {
    // EventSource does not say why it was refused; a plain request does.
    await get("stats").catch(() => {});
    followEvents();
  }, retryMs);
  retryMs = Math.min(retryMs * 1.6, LONGEST_RETRY_MS);
}

/** @param {MessageEvent} event */
function onEvent(event) {
  let data = null;
  try {
    data = JSON.parse(event.data);
  } catch {
    return; // not an event of ours
  }
  const kinds = Object.keys(data.new ?? {}).filter((kind) => data.new[kind].length);
  if (kinds.includes("recalls")) raise(recallsRevision);
  if (kinds.some((kind) => kind !== "recalls") || !kinds.length) raise(memoriesRevision);
  for (const listener of [...listeners]) listener(data);
}

function raise(revision) {
  const last = raised.get(revision) ?? { at: -Infinity, waits: false };
  if (last.waits) return;
  raised.set(revision, { ...last, waits: true });
  setTimeout(() => {
    raised.set(revision, { at: performance.now(), waits: false });
    revision.set((count) => count + 1);
  }, Math.max(GATHER_MS, last.at + LEAST_PAUSE_MS - performance.now()));
}
