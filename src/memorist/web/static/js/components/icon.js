/** Line icons, drawn for this page on a grid of 24. They repeat what a label says, so screen readers skip them. */

import { html } from "../../vendor/preact.js";

const PATHS = {
  search: "M10.5 17a6.5 6.5 0 1 0 0-13 6.5 6.5 0 0 0 0 13ZM20 20l-4.9-4.9",
  timeline: "M4 6h9M4 12h14M4 18h6M17 4v4M21 10v4M14 16v4",
  conversations: "M5 5h14a1 1 0 0 1 1 1v9a1 1 0 0 1-1 1h-7l-4.5 4v-4H5a1 1 0 0 1-1-1V6a1 1 0 0 1 1-1Z",
  documents: "M7 3h7l4 4v13a1 1 0 0 1-1 1H7a1 1 0 0 1-1-1V4a1 1 0 0 1 1-1ZM14 3v4h4M9 12h6M9 16h6",
  review: "M4 13h4l1.5 3h5L16 13h4M4 13l2.5-8h11L20 13v6a1 1 0 0 1-1 1H5a1 1 0 0 1-1-1v-6Z",
  recalls: "M4 12a8 8 0 1 1 3.2 6.4L4 20l1-3.4A8 8 0 0 1 4 12ZM8.5 10.5h7M8.5 14h4",
  graph: "M6 8.5A2.5 2.5 0 1 0 6 3.5a2.5 2.5 0 0 0 0 5ZM18 10a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5ZM10 20.5a2.5 2.5 0 1 0 0-5 2.5 2.5 0 0 0 0 5ZM8.5 6.3l7 .9M7 8.2l2.2 7.4M16.4 9.4l-4.6 6.8",
  insights: "M4 20V4M4 20h16M8 16l3.5-4.5 3 2.5L20 7",
  import: "M12 4v10M8 10.5l4 4 4-4M4.5 17v2a1 1 0 0 0 1 1h13a1 1 0 0 0 1-1v-2",
  settings: "M5 7h9M18 7h1M5 12h2M11 12h8M5 17h7M16 17h3M16 9a2 2 0 1 0 0-4 2 2 0 0 0 0 4ZM9 14a2 2 0 1 0 0-4 2 2 0 0 0 0 4ZM14 19a2 2 0 1 0 0-4 2 2 0 0 0 0 4Z",
  more: "M5 12h.01M12 12h.01M19 12h.01",
  close: "M6 6l12 12M18 6L6 18",
  up: "M7 11v9H4v-9h3Zm0 0 4-8a2 2 0 0 1 2 2v4h5.5a1.5 1.5 0 0 1 1.5 1.8l-1.2 7A1.5 1.5 0 0 1 17.3 20H7",
  down: "M17 13V4h3v9h-3Zm0 0-4 8a2 2 0 0 1-2-2v-4H5.500a1.5 1.5 0 0 1-1.5-1.800l1.2-7A1.5 1.5 0 0 1 6.7 4H17",
  pin: "M9 4h6l-.7 6 3.2 3.500v1.500h-11v-1.500L9.7 10 9 4ZM12 15v5",
  clock: "M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18ZM12 7v5l3.5 2",
  empty: "M4 7.5 12 4l8 3.500v9L12 20l-8-3.500v-9ZM4 7.500l8 3.5 8-3.500M12 11v9",
  warning: "M12 4 2.8 19.500h18.400L12 4ZM12 10v4.500M12 17h.01",
  plus: "M12 5v14M5 12h14",
  back: "M11 6l-6 6 6 6M5 12h14",
};

/**
 * @param {{name: keyof typeof PATHS, class?: string}} props
 */
export function Icon({ name, class: className }) {
  return html`<svg class=${className} viewBox="0 0 24 24" fill="none" stroke="currentColor" stroke-width=${name === "more" ? 2.6 : 1.6}
    stroke-linecap="round" stroke-linejoin="round" aria-hidden="true" focusable="false"><path d=${PATHS[name]} /></svg>`;
}

/** The sign of the project. */
export function Mark() {
  return html`<svg viewBox="0 0 32 32" aria-hidden="true" focusable="false">
    <rect width="32" height="32" rx="8" fill="currentColor" />
    <path d="M8 22V11l8 7 8-7v11" fill="none" stroke="var(--on-accent)" stroke-width="2.6" stroke-linecap="round" stroke-linejoin="round" />
  </svg>`;
}
