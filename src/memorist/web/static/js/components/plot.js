/** A line or a bar plot over time, with the same numbers as a table for whoever cannot see it. */

import { html, useEffect, useRef } from "../../vendor/preact.js";
import "../core/locale.js"; // before the plots, which ask for the language when they are loaded
import UPlot from "../../vendor/uplot.js";
import { formatDay, formatNumber } from "../core/format.js";
import { useColours } from "./colours.js";

const HEIGHT = 180;

/**
 * @param {object} props
 * @param {string} props.title
 * @param {string} props.note
 * @param {number[]} props.days  seconds since 1970
 * @param {Array<{label: string, values: Array<number | null>, bars?: boolean}>} props.series
 * @param {(value: number) => string} [props.format]
 */
export function Plot({ title, note, days, series, format = formatNumber }) {
  const box = useRef(null);
  const colours = useColours();
  useEffect(() => {
    const element = box.current;
    const chart = new UPlot(optionsOf(element.clientWidth, series, colours, format), [days, ...series.map((one) => one.values)], element);
    const observer = new ResizeObserver(() => chart.setSize({ width: element.clientWidth, height: HEIGHT }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      chart.destroy();
    };
  }, [days, series, colours]);
  const latest = days.length - 1;
  return html`<figure class="card card-body plot">
    <figcaption><h2>${title}</h2><span class="small faint">${note}</span></figcaption>
    <div class="plot-canvas" ref=${box} role="img" aria-label=${`${title}: ${latest >= 0 ? series.map((one) => `${one.label} ${format(one.values[latest] ?? 0)}`).join(", ") : "nothing yet"}`}></div>
    <details><summary>As a table</summary><div class="plot-scroll" tabindex="0" role="region" aria-label=${`${title}, as a table`}><table>
      <thead><tr><th scope="col">Day</th>${series.map((one) => html`<th scope="col" key=${one.label}>${one.label}</th>`)}</tr></thead>
      <tbody>${days.map((day, at) => html`<tr key=${day}><td>${formatDay(new Date(day * 1000).toISOString())}</td>${series.map((one) => html`<td key=${one.label}>${one.values[at] == null ? "" : format(one.values[at])}</td>`)}</tr>`).reverse()}</tbody>
    </table></div></details>
  </figure>`;
}

function optionsOf(width, series, colours, format) {
  const strokes = [colours.accent, colours["signal-3"], colours["signal-4"]];
  const axis = { stroke: colours["ink-faint"], font: "12px Inter, system-ui", grid: { stroke: colours.line, width: 1 }, ticks: { show: false } };
  return {
    width,
    height: HEIGHT,
    cursor: { y: false },
    legend: { show: false },
    axes: [{ ...axis, grid: { show: false } }, { ...axis, size: 44, values: (_, ticks) => ticks.map((tick) => (tick === null ? "" : format(tick))) }],
    scales: { y: { range: (_, low, high) => [Math.min(0, low ?? 0), Math.max(high ?? 1, 1e-9) * 1.08] } },
    series: [
      {},
      ...series.map((one, at) => ({
        label: one.label,
        stroke: strokes[at % strokes.length],
        width: one.bars ? 0 : 1.75,
        fill: one.bars ? strokes[at % strokes.length] : at === 0 ? colours["accent-wash"] : undefined,
        paths: one.bars ? UPlot.paths.bars({ size: [0.75, 18, 3], radius: 0.2 }) : undefined,
        points: { show: !one.bars && one.values.filter((value) => value !== null).length < 3 },
        spanGaps: true,
      })),
    ],
  };
}
