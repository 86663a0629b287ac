/** Keyboard shortcuts: single keys and two-key sequences, never while somebody is typing. */

import { useLayoutEffect, useRef } from "../../vendor/preact.js";

const SEQUENCE_MS = 1200;

/** @type {Array<Record<string, (event: KeyboardEvent) => void>>} */
const layers = [];
let prefix = "";
let prefixTimer = 0;

/**
 * Handle keys while a component is shown. Components that came later are asked first.
 * @param {Record<string, (event: KeyboardEvent) => void>} bindings  by key as in KeyboardEvent.key; "g s" is a sequence
 */
export function useKeys(bindings) {
  const latest = useRef(bindings);
  latest.current = bindings;
  // Before the next paint: whoever sees a component can use its keys.
  useLayoutEffect(() => {
    const layer = new Proxy({}, { get: (_, key) => latest.current[key] });
    layers.push(layer);
    return () => layers.splice(layers.indexOf(layer), 1);
  }, []);
}

addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  if (document.querySelector("dialog[open]")) return; // dialogs handle their own keys
  if (isTyping(event.target) && event.key !== "Escape") return;
  const key = prefix ? `${prefix} ${event.key}` : event.key;
  const handler = find(key) ?? (prefix ? find(event.key) : undefined);
  setPrefix("");
  if (handler) {
    event.preventDefault();
    handler(event);
  } else if (startsSequence(event.key)) {
    setPrefix(event.key);
  }
});

/** True if a key goes into a field. @param {EventTarget | null} target */
export function isTyping(target) {
  if (!(target instanceof HTMLElement)) return false;
  if (target.isContentEditable || target instanceof HTMLTextAreaElement || target instanceof HTMLSelectElement) return true;
  return target instanceof HTMLInputElement && !["checkbox", "radio", "button", "range", "submit"].includes(target.type);
}

function find(key) {
  for (const layer of layers.toReversed()) {
    if (layer[key]) return layer[key];
  }
  return undefined;
}

function startsSequence(key) {
  return key === "g";
}

function setPrefix(next) {
  clearTimeout(prefixTimer);
  prefix = next;
  if (next) prefixTimer = setTimeout(() => setPrefix(""), SEQUENCE_MS);
}
