/** A hook that reads something from the server, and reads it again when it may have changed. */

import { useEffect, useRef, useState } from "../../vendor/preact.js";
import { asOf, connection } from "./app-state.js";
import { useStore } from "./store.js";

/**
 * @template T
 * @typedef {object} Loaded
 * @property {T | null} data  the last answer; it stays while the next one is on its way, so that nothing jumps
 * @property {Error | null} error
 * @property {boolean} loading
 * @property {() => void} reload
 */

/**
 * Read something, and drop answers that a newer question has overtaken.
 * @template T
 * @param {(signal: AbortSignal) => Promise<T>} read
 * @param {unknown[]} subject  what is read: if it changes, the old answer is not shown any longer
 * @param {unknown[]} [revisions]  if one of these changes, it is read again behind what is shown
 * @param {{followsTime?: boolean}} [options]  false if it is the same at whatever time the page is set to
 * @returns {Loaded<T>}
 */
export function useLoaded(read, subject, revisions = [], { followsTime = true } = {}) {
  const moment = useStore(asOf);
  const answered = useStore(connection);
  const [state, setState] = useState({ data: null, error: null, loading: true, subject: "" });
  const [attempt, setAttempt] = useState(0);
  const key = JSON.stringify([subject, followsTime ? moment : null]);
  const wasOk = useRef(true);
  const comesBack = answered === "ok" && !wasOk.current;
  wasOk.current = answered === "ok";

  useEffect(() => {
    const abort = new AbortController();
    setState((before) => (before.subject === key ? { ...before, loading: true } : { data: null, error: null, loading: true, subject: key }));
    read(abort.signal).then(
      (data) => abort.signal.aborted || setState({ data, error: null, loading: false, subject: key }),
      (error) => abort.signal.aborted || setState((before) => ({ ...before, error, loading: false, subject: key })),
    );
    return () => abort.abort();
  }, [key, attempt, ...revisions]);

  useEffect(() => {
    if (comesBack) setAttempt((count) => count + 1);
  }, [comesBack]);

  const current = state.subject === key ? state : { data: null, error: null, loading: true };
  return { ...current, reload: () => setAttempt((count) => count + 1) };
}
