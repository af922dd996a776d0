// Words of the glossary in the text of a lesson (a notebook that calls `course.begin`): underlined, once a cell, with what
// they mean in a card on hover. The text itself stays as it was rendered; all of it is set as text.
const TERM = new RegExp("\\b(" + Object.keys(TERMS).join("|") + ")\\b", "gi");
function termCard(mark, [name, meaning]) {
  const card = el("span", { class: "tsw tsw-term-card", role: "tooltip", popover: "manual" }, el("b", {}, name), " ", meaning);
  const hide = () => { if (card.isConnected) { card.hidePopover(); card.remove(); } };
  const show = () => {
    if (!card.showPopover || card.isConnected) return;
    document.body.append(card);
    card.showPopover();
    const box = mark.getBoundingClientRect();
    card.style.left = Math.max(4, Math.min(box.left, innerWidth - card.offsetWidth - 4)) + "px";
    card.style.top = (box.bottom + card.offsetHeight + 8 < innerHeight ? box.bottom + 6 : box.top - card.offsetHeight - 6) + "px";
    addEventListener("scroll", hide, { capture: true, once: true });
  };
  mark.addEventListener("pointerenter", show);
  mark.addEventListener("pointerleave", hide);
}
function markTerms(node) {
  const walk = document.createTreeWalker(node, NodeFilter.SHOW_TEXT), seen = new Set(), texts = [];
  while (walk.nextNode()) if (!walk.currentNode.parentElement.closest("a, code, pre, mjx-container, h1, h2, h3, .tsw-term")) texts.push(walk.currentNode);
  for (const text of texts) {
    const parts = text.data.split(TERM);
    if (parts.length < 2) continue;
    text.replaceWith(...parts.map((part, at) => {
      const term = at % 2 && TERMS[part.toLowerCase()];
      if (!term || seen.has(term[0])) return part;
      seen.add(term[0]);
      const mark = el("span", { class: "tsw-term" }, part);
      termCard(mark, term);
      return mark;
    }));
  }
}
function explainLessons(app) {
  app.docRegistry.addWidgetExtension("Notebook", {
    createNew(panel) {
      const done = new WeakMap(); // rendered cell → its text when it was marked
      let lesson = false, due = 0;
      const look = () => {
        due = 0;
        lesson ||= panel.content.widgets.some((cell) => cell.model.sharedModel.getSource().includes("course.begin("));
        if (!lesson) return;
        for (const node of panel.content.node.querySelectorAll(".jp-MarkdownOutput")) {
          if (done.get(node) === node.textContent && node.querySelector(".tsw-term")) continue;
          markTerms(node);
          done.set(node, node.textContent);
        }
      };
      const watch = new MutationObserver((changes) => {
        const cell = (node) => node.classList?.contains("jp-Cell");
        if (changes.some(({ target, addedNodes }) => target.closest(".jp-MarkdownCell") || [...addedNodes].some(cell))) due ||= setTimeout(look, 50);
      });
      watch.observe(panel.content.node, { childList: true, subtree: true });
      panel.disposed.connect(() => { watch.disconnect(); clearTimeout(due); });
    },
  });
}
