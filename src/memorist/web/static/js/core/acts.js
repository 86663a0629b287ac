/** Acts that can be undone: each is done, announced, and kept on a stack from which `u` takes the last one back. */

import { memoriesRevision } from "./app-state.js";
import { createStore } from "./store.js";

const SHOWN_MS = 4000;
const UNDOABLE_MS = 8000; // time to think again
const KEPT_ACTS = 50;

/**
 * @typedef {object} Notice
 * @property {number} id
 * @property {string} text
 * @property {"done" | "error"} tone
 * @property {(() => Promise<unknown>) | null} undo
 */

/** @type {import("./store.js").Store<Notice[]>} */
export const notices = createStore([]);

/** @type {Notice[]} */
const undoable = [];
let lastId = 0;

/**
 * Do something that can be undone, and offer to undo it.
 * @param {string} text  what was done, as a sentence: "Forgotten."
 * @param {() => Promise<unknown>} act
 * @param {() => Promise<unknown>} undo
 * @returns {Promise<boolean>} false if it failed, which has then been announced
 */
export async function perform(text, act, undo) {
  try {
    await act();
  } catch (error) {
    announceError(error);
    return false;
  }
  const notice = announce(text, { undo });
  undoable.push(notice);
  undoable.splice(0, undoable.length - KEPT_ACTS);
  memoriesRevision.set((count) => count + 1);
  return true;
}

/** Undo the last act, or the act of a notice. @param {Notice} [notice] */
export async function undoLast(notice = undoable.at(-1)) {
  if (!notice?.undo) {
    announce("There is nothing to undo.");
    return;
  }
  dismiss(notice.id);
  try {
    await notice.undo();
    undoable.splice(undoable.indexOf(notice), 1);
    announce(`Undone: ${notice.text}`);
  } catch (error) {
    announceError(error);
  }
  memoriesRevision.set((count) => count + 1);
}

/**
 * Show a notice for a while.
 * @param {string} text
 * @param {{tone?: "done" | "error", undo?: (() => Promise<unknown>) | null}} [options]
 * @returns {Notice}
 */
export function announce(text, { tone = "done", undo = null } = {}) {
  const notice = { id: ++lastId, text, tone, undo };
  notices.set((all) => [...all.slice(-2), notice]);
  setTimeout(() => dismiss(notice.id), undo || tone === "error" ? UNDOABLE_MS : SHOWN_MS);
  return notice;
}

/** Show an error, unless the banner about a lost server says it already. @param {Error} error */
export function announceError(error) {
  if (error.name === "AbortError" || error.isLost) return;
  announce(error.message, { tone: "error" });
}

/** @param {number} id */
export function dismiss(id) {
  notices.set((all) => all.filter((notice) => notice.id !== id));
}
