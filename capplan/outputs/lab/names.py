"""Names of controls for those who hear a page: sliders and fields get the words that stand beside them."""

from __future__ import annotations

import anywidget


class Names(anywidget.AnyWidget):
    """Names the controls around it, now and when they change; it shows nothing itself.

    ipywidgets gives the handle of a slider no name, nor a field whose words stand in front of it as a text of their own.
    """

    _esm = """
    const within = ".capplan-meeting, .capplan-explorer";
    const said = (part) => {
      const own = (part.title || part.closest("[title]")?.title || "").trim();
      for (let row = part.parentElement; !own && row && !row.matches(within); row = row.parentElement) {
        const words = row.querySelector(".widget-label:not(:empty), label:not(:empty), button")?.textContent.trim();
        if (words) return words;
      }
      return own;
    };
    const name = (root) => {
      for (const part of root.querySelectorAll(".noUi-handle, input, select, textarea, [contenteditable=true]")) {
        const named = part.getAttribute("aria-label") || [...(part.labels || [])].some((label) => label.textContent.trim());
        const words = named ? "" : said(part);
        if (words) part.setAttribute("aria-label", words);
      }
    };
    export default {
      render({ el }) {
        let seen;
        const begin = (left) => {
          const root = el.closest(within);
          if (!root) { if (left) setTimeout(() => begin(left - 1), 100); return; }
          name(root);
          seen = new MutationObserver(() => name(root));
          seen.observe(root, { childList: true, subtree: true });
        };
        begin(100);
        return () => seen?.disconnect();
      },
    };
    """
