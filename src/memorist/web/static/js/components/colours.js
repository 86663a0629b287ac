/** Colours of the theme for canvases, which cannot use variables of a style sheet. */

import { useEffect, useState } from "../../vendor/preact.js";
import { theme } from "../core/app-state.js";
import { useStore } from "../core/store.js";

const NAMES = ["ink", "ink-soft", "ink-faint", "line", "line-strong", "surface", "accent", "accent-wash", "signal-3", "signal-4"];

/** Return the colours by name, again whenever the theme changes. @returns {Record<string, string>} */
export function useColours() {
  const chosen = useStore(theme);
  const [dark, setDark] = useState(false);
  useEffect(() => {
    const list = matchMedia("(prefers-color-scheme: dark)");
    const listener = () => setDark(list.matches);
    listener();
    list.addEventListener("change", listener);
    return () => list.removeEventListener("change", listener);
  }, []);
  const [colours, setColours] = useState(readColours);
  useEffect(() => setColours(readColours()), [chosen, dark]);
  return colours;
}

/** The style sheet says light-dark(...); an element that uses it says which of the two applies. */
function readColours() {
  const probe = document.createElement("span");
  document.body.append(probe);
  const colours = Object.fromEntries(NAMES.map((name) => {
    probe.style.color = `var(--${name})`;
    return [name, getComputedStyle(probe).color];
  }));
  probe.remove();
  return colours;
}
