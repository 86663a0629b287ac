/** What the whole page knows: the time it looks at, whether the server answers, the server's settings. */

import { createKeptStore, createStore, safeStorage } from "./store.js";

/** The time the whole page is set to, as ISO 8601; null means now. */
export const asOf = createKeptStore("as_of", null);

/**
 * How it stands with the server: "ok", "lost" (no answer), or "denied" (no valid session).
 * @type {import("./store.js").Store<"ok" | "lost" | "denied">}
 */
export const connection = createStore("ok");

/** Raised when memories have changed, by this page or by any other process: views then read again. */
export const memoriesRevision = createStore(0);

/** Raised with every recall that was recorded. */
export const recallsRevision = createStore(0);

/** What the server says of itself: version, namespace, access, settings, profiles and lenses; null until it has answered. */
export const serverSettings = createStore(null);

/** Numbers of the store; null until the server has answered. */
export const statistics = createStore(null);

/** The theme that was chosen: "light", "dark", or null for that of the system. */
export const theme = createKeptStoreOfTheme();

function createKeptStoreOfTheme() {
  const storage = safeStorage("localStorage");
  const store = createStore(document.documentElement.dataset.theme ?? null);
  store.subscribe((chosen) => {
    if (chosen) document.documentElement.dataset.theme = chosen;
    else delete document.documentElement.dataset.theme;
    try {
      if (chosen) storage?.setItem("memorist.theme", chosen);
      else storage?.removeItem("memorist.theme");
    } catch {
      // Without storage the choice lasts until the page is closed.
    }
  });
  return store;
}
