// Runs before the first paint, so that a chosen theme does not flash the other one first. Not a module: those wait.
try {
  const theme = localStorage.getItem("memorist.theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  // Storage may be switched off; the system's theme applies.
}
