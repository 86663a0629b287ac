/** A browser that was started without a locale may call its language "en-US@posix", which its own Intl refuses. */

try {
  Intl.getCanonicalLocales(navigator.language);
} catch {
  Object.defineProperty(navigator, "language", { value: "en", configurable: true });
}
