/** Edits in progress: kept in this tab's storage with every keystroke, so that neither a reload nor a lost server costs one. */

import { safeStorage } from "./store.js";

const storage = safeStorage("sessionStorage");
const memory = new Map(); // where the browser allows no storage

/**
 * @typedef {object} Draft
 * @property {string} content
 * @property {string} tags
 * @property {string | null} etag  of the version that the edit began from
 * @property {string} idempotencyKey
 */

/** @param {string} id @returns {Draft | null} */
export function readDraft(id) {
  try {
    const text = storage?.getItem(keyOf(id)) ?? memory.get(id);
    return text ? JSON.parse(text) : null;
  } catch {
    return null;
  }
}

/** @param {string} id @param {Draft} draft */
export function keepDraft(id, draft) {
  const text = JSON.stringify(draft);
  memory.set(id, text);
  try {
    storage?.setItem(keyOf(id), text);
  } catch {
    // Storage is full: the draft lives as long as the page does.
  }
}

/** @param {string} id */
export function dropDraft(id) {
  memory.delete(id);
  try {
    storage?.removeItem(keyOf(id));
  } catch {
    // Nothing was kept there then.
  }
}

const keyOf = (id) => `memorist.draft.${id}`;
