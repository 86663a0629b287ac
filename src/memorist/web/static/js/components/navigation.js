/** The ways between views: beside the page, or as a bar below it on a narrow screen. */

import { html, useState } from "../../vendor/preact.js";
import { connection, serverSettings, statistics } from "../core/app-state.js";
import { countOf } from "../core/format.js";
import { hrefOf } from "../core/router.js";
import { useStore } from "../core/store.js";
import { Dialog } from "./dialog.js";
import { Icon, Mark } from "./icon.js";

/** Views in the order they are listed. `first` ones are in the bar of a narrow screen, the others behind "More". */
export const VIEWS = [
  { view: "search", label: "Search", icon: "search", key: "s", first: true },
  { view: "timeline", label: "Timeline", icon: "timeline", key: "t", first: true },
  { view: "conversations", label: "Conversations", icon: "conversations", key: "c" },
  { view: "documents", label: "Documents", icon: "documents", key: "d" },
  { view: "review", label: "Review", icon: "review", key: "r", first: true, group: "Look after" },
  { view: "recalls", label: "Recalls", title: "What your agent was told", icon: "recalls", key: "w", first: true },
  { view: "insights", label: "Insights", icon: "insights", key: "i" },
  { view: "import", label: "Import", icon: "import", key: "m", group: "This memory" },
  { view: "settings", label: "Settings", icon: "settings", key: "," },
];

/** Views that belong to another one's entry. */
const PARENTS = { memory: "search", graph: "search", conversation: "conversations", document: "documents" };

/** @param {{current: string, onHelp: () => void, reviewCount: number | null}} props */
export function Navigation({ current, onHelp, reviewCount }) {
  const [more, setMore] = useState(false);
  const settings = useStore(serverSettings);
  const stats = useStore(statistics);
  const state = useStore(connection);
  const shown = PARENTS[current] ?? current;
  return html`<header class="sidebar">
    <a class="wordmark" href=${hrefOf("search")}><${Mark} /><span>Memorist</span></a>
    <nav aria-label="Views">
      <ul class="nav-links">
        ${VIEWS.flatMap((item) => [
          item.group && html`<li key=${item.group} class="nav-heading" aria-hidden="true">${item.group}</li>`,
          html`<li key=${item.view} class=${item.first ? "nav-item" : "nav-item is-second"}><${NavLink} item=${item} current=${shown} count=${item.view === "review" ? reviewCount : null} /></li>`,
        ])}
        <li class="nav-item is-more-item"><button type="button" class="nav-link is-more" aria-haspopup="dialog" onClick=${() => setMore(true)}><${Icon} name="more" /><span>More</span></button></li>
      </ul>
    </nav>
    <div class="sidebar-foot">
      ${stats && html`<span>${countOf(stats.memories, "memory", "memories")}</span>`}
      ${settings && (settings.namespace !== "default" || settings.read_only) && html`<span>${settings.namespace === "default" ? "" : html`<bdi>${settings.namespace}</bdi> `}${settings.read_only ? "read only" : ""}</span>`}
      <span><span class=${`live-dot ${state === "ok" ? "" : "is-off"}`} aria-hidden="true"></span> ${state === "ok" ? "Live" : "Not connected"}</span>
      <button type="button" class="link-button" onClick=${onHelp}>Keyboard <kbd>?</kbd></button>
    </div>
    ${more && html`<${Dialog} title="More" onClose=${() => setMore(false)}>
      <nav class="more-links" aria-label="More views" onClick=${() => setMore(false)}>
        ${VIEWS.filter((item) => !item.first).map((item) => html`<a key=${item.view} href=${hrefOf(item.view)}><${Icon} name=${item.icon} />${item.title ?? item.label}</a>`)}
      </nav>
    <//>`}
  </header>`;
}

function NavLink({ item, current, count }) {
  return html`<a class=${`nav-link ${item.first ? "" : "is-second"}`} href=${hrefOf(item.view)} aria-current=${item.view === current ? "page" : undefined} title=${item.title}>
    <${Icon} name=${item.icon} /><span>${item.label}</span>
    ${count ? html`<span class="badge is-plain nav-count"><span class="visually-hidden">, to review: </span>${count > 99 ? "99+" : count}</span>` : null}
  </a>`;
}
