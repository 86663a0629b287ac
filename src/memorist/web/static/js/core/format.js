/** Numbers, times and lengths as people read them. */

const DAY_MS = 86_400_000;
const plainNumber = new Intl.NumberFormat("en");
const dayFormat = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric" });
const longDayFormat = new Intl.DateTimeFormat("en-GB", { weekday: "long", day: "numeric", month: "long", year: "numeric" });
const timeFormat = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto" });

/** @param {number} value */
export const formatNumber = (value) => plainNumber.format(value);

/** Return a count with its noun: "1 memory", "2 memories". */
export function countOf(count, one, many = `${one}s`) {
  return `${formatNumber(count)} ${count === 1 ? one : many}`;
}

/** @param {string} iso */
export const formatDay = (iso) => dayFormat.format(new Date(iso));
/** @param {string} iso */
export const formatLongDay = (iso) => longDayFormat.format(new Date(iso));
/** @param {string} iso */
export const formatTime = (iso) => timeFormat.format(new Date(iso));
/** @param {string} iso */
export const formatMoment = (iso) => `${formatDay(iso)}, ${formatTime(iso)}`;

/**
 * Return how long ago something was; beyond a month, the day.
 * @param {string} iso
 */
export function formatAgo(iso, now = Date.now()) {
  const passed = now - new Date(iso).getTime();
  const size = Math.abs(passed);
  if (size < 45_000) return "just now";
  if (size < 3_600_000) return relative.format(-Math.round(passed / 60_000), "minute");
  if (size < DAY_MS) return relative.format(-Math.round(passed / 3_600_000), "hour");
  if (size < 30 * DAY_MS) return relative.format(-Math.round(passed / DAY_MS), "day");
  return formatDay(iso);
}

/** @param {number} share  0 to 1 */
export const formatPercent = (share) => `${Math.round(share * 100)} %`;

/** @param {number} bytes */
export function formatBytes(bytes) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let size = bytes;
  let unit = 0;
  while (size >= 1000 && unit < units.length - 1) {
    size /= 1000;
    unit += 1;
  }
  return `${size >= 100 || unit === 0 ? Math.round(size) : size.toFixed(1)} ${units[unit]}`;
}

/** Return a name as a label: "fact_kind" is "Fact kind". @param {string} name */
export function labelOf(name) {
  const words = name.replaceAll("_", " ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** Return the end of a path, by which people know a file. @param {string} path */
export const shortPath = (path) => path.split(/[\\/]/).slice(-2).join("/");

/** Return the end of an id, by which people tell memories apart. @param {string} id */
export const shortId = (id) => id.slice(-8);
