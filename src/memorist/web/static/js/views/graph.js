/** The surroundings of a memory, two hops far: drawn on a canvas, and listed beside it for the keyboard. */

import { html, useRef, useState } from "../../vendor/preact.js";
import { GraphCanvas } from "../components/graph-canvas.js";
import { textOf } from "../components/memory-row.js";
import { useMovingFocus } from "../components/moving-focus.js";
import { Answer } from "../components/states.js";
import { get } from "../core/api.js";
import { memoriesRevision } from "../core/app-state.js";
import { countOf } from "../core/format.js";
import { useLoaded } from "../core/loading.js";
import { go, hrefOf } from "../core/router.js";
import { useStore } from "../core/store.js";

/** @param {{route: import("../core/router.js").Route}} props */
export function GraphView({ route }) {
  const revision = useStore(memoriesRevision);
  const loaded = useLoaded((signal) => get("graph", { query: { memory: route.id, hops: 2, limit: 8 }, signal }), ["graph", route.id], [revision]);
  return html`
    <div class="view-head"><h1>Surroundings</h1><p>What the memory is linked with or similar to, and what those are.</p>
      <div class="view-actions"><a class="button" href=${hrefOf("memory", route.id)}>Back to the memory</a></div></div>
    <${Answer} loaded=${loaded}>${(graph) => html`<${Surroundings} graph=${graph} />`}<//>`;
}

function Surroundings({ graph }) {
  const [focused, setFocused] = useState(graph.center);
  const list = useRef(null);
  const hops = hopsOf(graph);
  useMovingFocus(list);
  const ordered = [...graph.memories].sort((a, b) => (hops.get(a.id) ?? 3) - (hops.get(b.id) ?? 3));
  return html`<div class="graph-columns">
    <${GraphCanvas} graph=${graph} hops=${hops} focused=${focused} onFocus=${setFocused} onOpen=${(id) => go(hrefOf("memory", id))} />
    <nav class="graph-list" aria-label="Memories of the graph" ref=${list}>
      <p class="small faint">${countOf(graph.memories.length, "memory", "memories")}, ${countOf(graph.edges.length, "link")}</p>
      <ul>${ordered.map((memory) => html`<li key=${memory.id} data-hop=${hops.get(memory.id) ?? 2}>
        <a data-row href=${hrefOf("memory", memory.id)} aria-current=${memory.id === graph.center ? "true" : undefined} onFocus=${() => setFocused(memory.id)} onMouseEnter=${() => setFocused(memory.id)}>
          <span class="clamp-2"><bdi>${textOf(memory)}</bdi></span><small class="faint">${describeLinks(graph, memory.id)}</small></a>
      </li>`)}</ul>
    </nav>
  </div>`;
}

/** Return how many links each memory is away from the one in the middle. */
function hopsOf(graph) {
  const hops = new Map([[graph.center, 0]]);
  for (let hop = 1; hop <= 2; hop += 1) {
    for (const edge of graph.edges) {
      for (const [from, to] of [[edge.source, edge.target], [edge.target, edge.source]]) {
        if (hops.get(from) === hop - 1 && !hops.has(to)) hops.set(to, hop);
      }
    }
  }
  return hops;
}

function describeLinks(graph, id) {
  if (id === graph.center) return "in the middle";
  const kinds = new Set(graph.edges.filter((edge) => edge.source === id || edge.target === id).map((edge) => edge.kind));
  return [...kinds].join(", ");
}
