/** Routes in the fragment of the address: #/memories/ID?line=3. Links are plain links, so the browser keeps history. */

import { createStore } from "./store.js";

/**
 * @typedef {object} Route
 * @property {string} view  the first part: "search", "memory", ...
 * @property {string} id  the rest of the path, decoded; "" if there is none
 * @property {URLSearchParams} parameters
 * @property {{top: number, from: string} | null} [returned]  where the view stood, and the link it was left by, if it was gone back to
 */

/** @type {import("./store.js").Store<Route>} */
export const route = createStore(parse(location.hash));

/** How far each address was scrolled when it was left. @type {Map<string, number>} */
const tops = new Map();
let isReturn = false;

history.scrollRestoration = "manual"; // lists grow as they load: the page knows better when it can scroll back
history.replaceState({ visited: true }, "");
addEventListener("popstate", (event) => {
  isReturn = event.state?.visited === true;
});
addEventListener("hashchange", (event) => {
  const [left, entered] = [new URL(event.oldURL).hash, location.hash];
  tops.set(left, scrollY);
  const returned = isReturn && tops.has(entered) ? { top: tops.get(entered), from: left } : null;
  isReturn = false;
  history.replaceState({ visited: true }, "");
  route.set({ ...parse(entered), returned });
});

/**
 * Return the address of a view.
 * @param {string} view
 * @param {string} [id]
 * @param {Record<string, unknown>} [parameters] empty values are left out
 */
export function hrefOf(view, id = "", parameters = {}) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    for (const each of Array.isArray(value) ? value : [value]) {
      if (each !== undefined && each !== null && each !== "" && each !== false) query.append(name, String(each));
    }
  }
  const tail = query.toString();
  return `#/${view}${id ? `/${encodeURIComponent(id)}` : ""}${tail ? `?${tail}` : ""}`;
}

/** Go to a view. @param {string} href */
export function go(href) {
  location.hash = href;
}

/** Change the address without a new entry in the history, as a search does while it is typed. @param {string} href */
export function replaceHref(href) {
  history.replaceState({ visited: true }, "", href);
  route.set(parse(location.hash));
}

/** @param {string} hash @returns {Route} */
function parse(hash) {
  const [path, query = ""] = hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  const [view, ...rest] = path.split("/");
  return { view: view || "search", id: decode(rest.join("/")), parameters: new URLSearchParams(query) };
}

function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
