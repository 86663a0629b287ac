/** A modal dialog: the browser's own, which keeps the focus inside and gives it back afterwards. */

import { html, useEffect, useRef } from "../../vendor/preact.js";
import { Icon } from "./icon.js";

/**
 * @param {{title: string, onClose: () => void, children?: any, closable?: boolean, class?: string}} props
 */
export function Dialog({ title, onClose, children, closable = true, class: className = "" }) {
  const dialog = useRef(null);
  useEffect(() => {
    const opener = document.activeElement;
    dialog.current.showModal();
    return () => opener instanceof HTMLElement && opener.isConnected && opener.focus();
  }, []);
  const cancel = (event) => {
    event.preventDefault();
    if (closable) onClose();
  };
  const clickOutside = (event) => {
    if (closable && event.target === dialog.current) onClose();
  };
  return html`<dialog class=${`dialog ${className}`} ref=${dialog} aria-labelledby="dialog-title" onCancel=${cancel} onClick=${clickOutside}>
    <div class="dialog-head">
      <h2 id="dialog-title">${title}</h2>
      ${closable && html`<button class="button is-quiet is-icon" type="button" onClick=${onClose} aria-label="Close"><${Icon} name="close" /></button>`}
    </div>
    <div class="dialog-body">${children}</div>
  </dialog>`;
}
