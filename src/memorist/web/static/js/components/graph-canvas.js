/** A graph of memories on a canvas: placed by forces, moved and zoomed by mouse or touch. */

import { html, useEffect, useRef } from "../../vendor/preact.js";
import { forceCollide, forceLink, forceManyBody, forceRadial, forceSimulation, select, zoom, zoomIdentity } from "../../vendor/d3.js";
import { useColours } from "./colours.js";
import { textOf } from "./memory-row.js";

const SETTLED_TICKS = 200;
const LABEL_CHARACTERS = 22;
const STRETCH = 1.3; // labels are wide, and so are screens
const RINGS = [0, 130, 235]; // how far from the middle the memories of each hop stand, in pixels
const LABEL_PIXELS = 11.5;
const SIMILAR = "similar";

/**
 * @param {object} props
 * @param {any} props.graph
 * @param {Map<string, number>} props.hops
 * @param {string} props.focused  the memory that is emphasised
 * @param {(id: string) => void} props.onFocus
 * @param {(id: string) => void} props.onOpen
 */
export function GraphCanvas({ graph, hops, focused, onFocus, onOpen }) {
  const canvas = useRef(null);
  const drawing = useRef(null);
  const colours = useColours();
  useEffect(() => {
    drawing.current = startDrawing(canvas.current, layOut(graph, hops), { onFocus, onOpen });
    return () => drawing.current.stop();
  }, [graph]);
  useEffect(() => drawing.current?.update({ colours, focused }), [colours, focused, graph]);
  return html`<canvas class="card graph-canvas" ref=${canvas} role="img" aria-label=${`A graph of ${graph.memories.length} memories; the list beside it names them all`}></canvas>`;
}

/** Place the nodes. The forces run to their end at once: nothing moves by itself on the page. */
function layOut(graph, hops) {
  const nodes = graph.memories.map((memory) => ({
    id: memory.id,
    label: labelOf(memory),
    hop: hops.get(memory.id) ?? 2,
    ...(memory.id === graph.center ? { fx: 0, fy: 0 } : {}),
  }));
  const known = new Set(nodes.map((node) => node.id));
  const links = graph.edges.filter((edge) => known.has(edge.source) && known.has(edge.target)).map((edge) => ({ ...edge }));
  forceSimulation(nodes)
    .force("links", forceLink(links).id((node) => node.id).distance(90).strength(0.04))
    .force("charge", forceManyBody().strength(-160))
    .force("room", forceCollide((node) => (node.hop === 2 ? 22 : 46)))
    .force("rings", forceRadial((node) => RINGS[node.hop]).strength(0.9))
    .stop()
    .tick(SETTLED_TICKS);
  for (const node of nodes) node.x *= STRETCH;
  return { nodes, links };
}

/** Draw, and draw again when something moves. */
function startDrawing(canvas, { nodes, links }, { onFocus, onOpen }) {
  const context = canvas.getContext("2d");
  let state = { colours: null, focused: "" };
  let transform = zoomIdentity;
  let size = { width: 0, height: 0 };
  const draw = () => {
    if (state.colours && size.width) paint(context, { nodes, links, transform, size, ...state });
  };
  const behaviour = zoom().scaleExtent([0.3, 4]).on("zoom", (event) => {
    transform = event.transform;
    draw();
  });
  const resize = new ResizeObserver(() => {
    const first = size.width === 0;
    size = { width: canvas.clientWidth, height: canvas.clientHeight };
    canvas.width = size.width * devicePixelRatio;
    canvas.height = size.height * devicePixelRatio;
    if (first) select(canvas).call(behaviour.transform, fitting(nodes, size));
    draw();
  });
  const nodeAt = (event) => {
    const box = canvas.getBoundingClientRect();
    const [x, y] = transform.invert([event.clientX - box.left, event.clientY - box.top]);
    return nodes.find((node) => Math.hypot(node.x - x, node.y - y) < radiusOf(node) + 6);
  };
  const onMove = (event) => {
    const node = nodeAt(event);
    canvas.style.cursor = node ? "pointer" : "";
    if (node) onFocus(node.id);
  };
  const onClick = (event) => {
    const node = nodeAt(event);
    if (node && !event.defaultPrevented) onOpen(node.id);
  };
  select(canvas).call(behaviour);
  resize.observe(canvas);
  canvas.addEventListener("pointermove", onMove);
  canvas.addEventListener("click", onClick);
  return {
    update(next) {
      state = next;
      draw();
    },
    stop() {
      resize.disconnect();
      select(canvas).on(".zoom", null);
      canvas.removeEventListener("pointermove", onMove);
      canvas.removeEventListener("click", onClick);
    },
  };
}

function paint(context, { nodes, links, transform, size, colours, focused }) {
  context.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
  context.clearRect(0, 0, size.width, size.height);
  context.translate(transform.x, transform.y);
  context.scale(transform.k, transform.k);
  const near = new Set([focused, ...links.flatMap(({ source, target }) => (source.id === focused ? [target.id] : target.id === focused ? [source.id] : []))]);
  for (const { source, target, kind, weight } of links) {
    const emphasised = source.id === focused || target.id === focused;
    context.beginPath();
    context.setLineDash(kind === SIMILAR ? [3, 4] : []);
    context.moveTo(source.x, source.y);
    context.lineTo(target.x, target.y);
    context.lineWidth = (emphasised ? 1.6 : 1) + weight * 0.6;
    context.strokeStyle = emphasised ? colours.accent : colours["line-strong"];
    context.stroke();
  }
  context.setLineDash([]);
  context.textAlign = "center";
  for (const node of nodes) {
    context.beginPath();
    context.arc(node.x, node.y, radiusOf(node), 0, 2 * Math.PI);
    context.fillStyle = node.hop === 0 || node.id === focused ? colours.accent : node.hop === 1 ? colours["ink-faint"] : colours["line-strong"];
    context.fill();
    if (node.hop === 2 && !near.has(node.id) && nodes.length > 14) continue;
    // Labels have one size on the screen, however far the graph is zoomed.
    const baseline = node.y < -1 ? node.y - radiusOf(node) - 6 / transform.k : node.y + radiusOf(node) + 14 / transform.k;
    context.font = `${node.id === focused ? 600 : 400} ${LABEL_PIXELS / transform.k}px Inter, system-ui`;
    context.lineWidth = 4 / transform.k;
    context.strokeStyle = colours.surface;
    context.strokeText(node.label, node.x, baseline);
    context.fillStyle = near.has(node.id) ? colours.ink : colours["ink-faint"];
    context.fillText(node.label, node.x, baseline);
  }
}

/** Return the transform that shows all nodes. */
function fitting(nodes, size) {
  const xs = nodes.map((node) => node.x);
  const ys = nodes.map((node) => node.y);
  const [left, right, top, bottom] = [Math.min(...xs) - 80, Math.max(...xs) + 80, Math.min(...ys) - 30, Math.max(...ys) + 40];
  const scale = Math.min(1.6, size.width / (right - left), size.height / (bottom - top));
  return zoomIdentity.translate(size.width / 2, size.height / 2).scale(scale).translate(-(left + right) / 2, -(top + bottom) / 2);
}

const radiusOf = (node) => [11, 7, 5][node.hop] ?? 5;

function labelOf(memory) {
  const text = textOf(memory).replace(/\s+/g, " ");
  return text.length > LABEL_CHARACTERS ? `${text.slice(0, LABEL_CHARACTERS - 1).trimEnd()}…` : text;
}
