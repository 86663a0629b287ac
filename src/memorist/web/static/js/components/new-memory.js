/** A dialog to add a memory. */

import { html, useState } from "../../vendor/preact.js";
import { perform } from "../core/acts.js";
import { newKey, request } from "../core/api.js";
import { asOf } from "../core/app-state.js";
import { dropDraft, keepDraft, readDraft } from "../core/drafts.js";
import { go, hrefOf } from "../core/router.js";
import { Dialog } from "./dialog.js";

const NEW = "new";

/** @param {{onClose: () => void}} props */
export function NewMemory({ onClose }) {
  const [draft, setDraft] = useState(() => readDraft(NEW) ?? { content: "", tags: "", project: "", idempotencyKey: newKey() });
  const [problem, setProblem] = useState("");
  const change = (changes) => {
    const next = { ...draft, ...changes };
    keepDraft(NEW, next);
    setDraft(next);
  };
  const submit = async (event) => {
    event.preventDefault();
    let created = null;
    const tags = draft.tags.split(",").map((tag) => tag.trim()).filter(Boolean);
    const body = { content: draft.content, tags, ...(draft.project.trim() ? { project: draft.project.trim() } : {}) };
    setProblem("");
    const done = await perform(
      "Remembered.",
      async () => {
        try {
          created = await request("POST", "memories", { body, idempotencyKey: draft.idempotencyKey });
        } catch (error) {
          setProblem(error.isLost ? "The server does not answer. Your text is kept; try again when it is back." : error.message);
          throw error;
        }
      },
      () => request("DELETE", `memories/${encodeURIComponent(created.id)}`),
    );
    if (!done) return;
    dropDraft(NEW);
    onClose();
    go(hrefOf("memory", created.id));
  };
  return html`<${Dialog} title="New memory" onClose=${onClose}>
    <form class="stack" onSubmit=${submit}>
      <div class="field"><label for="new-content">What to remember</label>
        <textarea id="new-content" class="textarea" required autofocus value=${draft.content} onInput=${(event) => change({ content: event.target.value })}></textarea></div>
      <div class="field"><label for="new-project">Project</label>
        <input id="new-project" class="input" value=${draft.project} onInput=${(event) => change({ project: event.target.value })} /></div>
      <div class="field"><label for="new-tags">Tags, separated by commas</label>
        <input id="new-tags" class="input" value=${draft.tags} onInput=${(event) => change({ tags: event.target.value })} /></div>
      ${asOf.get() && html`<p class="note is-warn">The page shows the past. The memory is added now.</p>`}
      ${problem && html`<p class="note is-bad" role="alert">${problem}</p>`}
      <div class="dialog-foot">
        <button type="button" class="button" onClick=${onClose}>Cancel</button>
        <button class="button is-primary">Remember</button>
      </div>
    </form>
  <//>`;
}
