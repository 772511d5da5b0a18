"""What only the page itself can do: name controls for those who hear it, and say that the kernel behind it is gone."""

import anywidget


class Names(anywidget.AnyWidget):
    """Names the controls around it, now and when they change; it shows nothing itself until the kernel ends.

    ipywidgets gives the handle of a slider no name, nor a field whose words stand in front of it as a text of their own. When a kernel is
    restarted or dies, its widgets stay in the page and answer nothing: they are switched off, and what to do is said above them.
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
    const gone = (root) => {
      if (!root || root.querySelector(".capplan-gone")) return;
      const said = document.createElement("div");
      said.className = "capplan-gone";
      said.setAttribute("role", "alert");
      said.style.cssText = "color:#9c0011;border-left:3px solid #9c0011;padding-left:8px;flex:0 0 auto";
      said.textContent = "The kernel was restarted: what stands here is from before and answers no more. Run all cells again.";
      root.prepend(said);
      for (const part of root.querySelectorAll("button, input, select, textarea")) part.disabled = true;
    };
    export default {
      render({ model, el }) {
        let seen;
        model.on("comm_live_update", () => gone(el.closest(within)));
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
