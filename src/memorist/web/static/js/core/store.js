/** Values that several parts of the page share, and a hook that renders again when one of them changes. */

import { useEffect, useState } from "../../vendor/preact.js";

/**
 * @template T
 * @typedef {object} Store
 * @property {() => T} get
 * @property {(next: T | ((value: T) => T)) => void} set
 * @property {(listener: (value: T) => void) => () => void} subscribe  returns a function that ends the subscription
 */

/**
 * Create a store with one value.
 * @template T
 * @param {T} value
 * @returns {Store<T>}
 */
export function createStore(value) {
  const listeners = new Set();
  return {
    get: () => value,
    set(next) {
      const changed = typeof next === "function" ? next(value) : next;
      if (Object.is(changed, value)) return;
      value = changed;
      for (const listener of [...listeners]) listener(value);
    },
    subscribe(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

/**
 * Return a store's value, and render again when it changes.
 * @template T
 * @param {Store<T>} store
 * @returns {T}
 */
export function useStore(store) {
  const [value, setValue] = useState(store.get());
  useEffect(() => {
    setValue(store.get()); // it may have changed between the first rendering and now
    return store.subscribe(setValue);
  }, [store]);
  return value;
}

/**
 * Create a store whose value outlives a reload of this tab (or, with `local`, the browser).
 * @template T
 * @param {string} name
 * @param {T} initial
 * @param {Storage | undefined} [storage]
 * @returns {Store<T>}
 */
export function createKeptStore(name, initial, storage = safeStorage("sessionStorage")) {
  const store = createStore(read(name, initial, storage));
  store.subscribe((value) => write(name, value, storage));
  return store;
}

/**
 * Return a storage of the browser, or undefined where the user has switched it off.
 * @param {"sessionStorage" | "localStorage"} name
 * @returns {Storage | undefined}
 */
export function safeStorage(name) {
  try {
    return window[name];
  } catch {
    return undefined;
  }
}

function read(name, initial, storage) {
  try {
    const text = storage?.getItem(`memorist.${name}`);
    return text == null ? initial : JSON.parse(text);
  } catch {
    return initial;
  }
}

function write(name, value, storage) {
  try {
    if (value == null) storage?.removeItem(`memorist.${name}`);
    else storage?.setItem(`memorist.${name}`, JSON.stringify(value));
  } catch {
    // A full or forbidden storage costs only what a reload would have kept.
  }
}
