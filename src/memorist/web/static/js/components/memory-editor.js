/**
 * Editing a memory. The draft is kept with every keystroke. If the server is lost, the save waits for it; if somebody
 * else has changed the memory, both texts are shown and the person decides.
 */

import { html, useEffect, useRef, useState } from "../../vendor/preact.js";
import { perform } from "../core/acts.js";
import { newKey, request, requestWithTag } from "../core/api.js";
import { connection } from "../core/app-state.js";
import { dropDraft, keepDraft, readDraft } from "../core/drafts.js";
import { useStore } from "../core/store.js";
import { Diff } from "./diff.js";

/**
 * @param {{memory: any, etag: string | null, onDone: () => void}} props
 */
export function MemoryEditor({ memory, etag, onDone }) {
  const [draft, setDraft] = useState(() => readDraft(memory.id) ?? newDraft(memory, etag));
  const [status, setStatus] = useState("editing"); // or "saving", "waiting" for the server, "conflict"
  const [problem, setProblem] = useState("");
  const [theirs, setTheirs] = useState(null);
  const answered = useStore(connection);
  const field = useRef(null);
  useEffect(() => field.current?.focus(), []);

  const change = (changes) => {
    const next = { ...draft, ...changes, idempotencyKey: newKey() };
    keepDraft(memory.id, next);
    setDraft(next);
  };

  const save = async (attempt = draft) => {
    setStatus("saving");
    setProblem("");
    const before = { content: memory.content, tags: memory.tags };
    const saved = await perform(
      "Saved.",
      async () => {
        try {
          await request("PATCH", `memories/${encodeURIComponent(memory.id)}`, { body: changesOf(attempt), ifMatch: attempt.etag, idempotencyKey: attempt.idempotencyKey });
        } catch (error) {
          await explain(error);
          throw error;
        }
      },
      () => putBack(memory.id, before),
    );
    if (!saved) return;
    dropDraft(memory.id);
    onDone();
  };
  const explain = async (error) => {
    if (error.isLost) {
      setStatus("waiting");
    } else if (error.isConflict) {
      setTheirs(await requestWithTag("GET", `memories/${encodeURIComponent(memory.id)}`).catch(() => null));
      setStatus("conflict");
    } else {
      setStatus("editing");
      setProblem(error.message);
    }
  };
  useEffect(() => {
    if (status === "waiting" && answered === "ok") save();
  }, [status, answered]);

  const cancel = () => {
    dropDraft(memory.id);
    onDone();
  };
  const onKeyDown = (event) => {
    if (event.key === "Enter" && (event.metaKey || event.ctrlKey)) {
      event.preventDefault();
      save();
    }
  };
  const keepMine = () => {
    const next = { ...draft, etag: theirs.etag, idempotencyKey: newKey() };
    keepDraft(memory.id, next);
    setDraft(next);
    setTheirs(null);
    save(next);
  };
  return html`<form class="stack" onSubmit=${(event) => { event.preventDefault(); save(); }} onKeyDown=${onKeyDown} aria-label="Edit the memory">
    <div class="field"><label for="edit-content">Text</label>
      <textarea id="edit-content" ref=${field} class="textarea" required value=${draft.content} onInput=${(event) => change({ content: event.target.value })}></textarea></div>
    <div class="field"><label for="edit-tags">Tags, separated by commas</label>
      <input id="edit-tags" class="input" value=${draft.tags} onInput=${(event) => change({ tags: event.target.value })} /></div>
    ${status === "waiting" && html`<p class="note is-warn" role="status">Not saved yet: the server does not answer. This is kept, and saved as soon as it is back.</p>`}
    ${problem && html`<p class="note is-bad" role="alert">${problem}</p>`}
    ${status === "conflict" && theirs && html`<${Conflict} mine=${draft.content} theirs=${theirs.body.content} onMine=${keepMine} onTheirs=${cancel} />`}
    <div class="row">
      <button class="button is-primary" disabled=${status === "saving" || status === "conflict"}>${status === "saving" ? "Saving" : "Save"}</button>
      <button type="button" class="button" onClick=${cancel}>Discard</button>
      <span class="small faint">Ctrl Enter saves. The old text stays in the history.</span>
    </div>
  </form>`;
}

function Conflict({ mine, theirs, onMine, onTheirs }) {
  return html`<div class="conflict" role="alertdialog" aria-label="Somebody else changed it">
    <strong>Somebody else changed this memory while you were editing.</strong>
    <p class="small">From their text to yours:</p>
    <${Diff} before=${theirs} after=${mine} />
    <div class="row"><button type="button" class="button is-primary" onClick=${onMine}>Save mine over it</button><button type="button" class="button" onClick=${onTheirs}>Keep theirs</button></div>
  </div>`;
}

/** Undo an edit: the old text over whatever is there now. */
async function putBack(id, fields) {
  const { etag } = await requestWithTag("GET", `memories/${encodeURIComponent(id)}`);
  return request("PATCH", `memories/${encodeURIComponent(id)}`, { body: fields, ifMatch: etag, idempotencyKey: newKey() });
}

function newDraft(memory, etag) {
  return { content: memory.content, tags: memory.tags.join(", "), etag, idempotencyKey: newKey() };
}

function changesOf(draft) {
  return { content: draft.content, tags: draft.tags.split(",").map((tag) => tag.trim()).filter(Boolean) };
}
