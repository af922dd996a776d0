// FileExplorer: the tree, a table of what its node holds, one file's row groups; keys, search, paging, hover.
function renderExplorer({ model, el }) {
  const stage = lwStage(model, el, "explorer");
  const fixed = Boolean(model.get("static"));
  const versus = lwEl("select", { "aria-label": "compare with snapshot", onchange: () => lwSet(model, { against: versus.value ? Number(versus.value) : null }) });
  const mode = lwSegments("files shown", [["changed", "changed"], ["all", "all files"]], (v) => lwSet(model, { mode: v }));
  const search = lwEl("input", { type: "text", placeholder: "find", "aria-label": "find in the table", size: 10, disabled: fixed });
  const back = lwButton("prev", "earlier rows", () => turn(-1)), on = lwButton("next", "later rows", () => turn(1));
  stage.tools.append(lwEl("span", { class: "lw-sub lw-wide" }, "compare with"), versus, mode, search);
  const figures = lwEl("div", { class: "lw-pic lw-figures", role: "group", "aria-label": "key figures" });
  const tree = lwEl("div", { class: "lw-pic lw-tree", tabindex: 0, role: "tree", "aria-label": "metadata" });
  const table = lwEl("div", { class: "lw-pic lw-table", tabindex: 0, role: "grid", "aria-label": "files" });
  const pager = lwEl("div", { class: "lw-pager" }, back, on);
  const detail = lwEl("div", { class: "lw-pic lw-detail" });
  const hint = lwEl("div", { class: "lw-sub lw-ask-file" }, "Click a file, or use ↑ ↓, to see its row groups and column chunks.");
  const right = lwEl("div", { class: "lw-right" }, table, pager, hint, detail);
  const split = lwEl("div", { class: "lw-split" }, tree, right);
  stage.body.append(figures, split);
  const card = lwCard(stage);
  let timer = null;
  const frame = () => model.get("frame");
  const chosen = () => { const s = (model.get("selected") || [])[0]; return typeof s === "string" ? s : ""; };
  const rows = () => [...table.querySelectorAll(".row")], nodes = () => [...tree.querySelectorAll(".node:not(.more)")];

  function show(place, picture) {
    if (place.shown === picture) return;
    place.shown = picture;
    stage.picture(place, picture || "");
  }
  function toggle(path, open) {
    const now = new Set(model.get("expanded"));
    if (open ?? !now.has(path)) now.add(path); else now.delete(path);
    lwSet(model, { expanded: [...now] });
  }
  function go(path) {
    if (path !== model.get("path")) lwSet(model, { path });
  }
  function turn(by) {
    const { first, found, step } = frame().place || { first: 0, found: 0, step: 1 };
    const to = first + by * step;
    if (to >= 0 && to < found) lwSet(model, { page: to });
  }
  function pick(name) {
    lwSet(model, { selected: name ? [name] : [], row_group: 0 });
  }
  function name() {
    for (const g of nodes()) g.setAttribute("aria-label", [...g.querySelectorAll("text")].map((t) => t.textContent).join(", "));
    for (const g of rows()) {
      const c = (frame().cards || {})[g.dataset.name], cells = [...g.querySelectorAll("text")].map((t) => t.textContent);
      g.setAttribute("aria-label", c ? `${g.dataset.name}: ${c[0]}, level ${c[1]}, in ${c[2]}, ${c[3]} rows, keys ${c[4]}, masked ${c[5]}` : cells.join(", "));
    }
    lwRoles(tree);
    lwRoles(table);
  }
  function ring() {
    table.querySelectorAll(".ring").forEach((r) => r.remove());
    for (const g of rows()) {
      const mine = Boolean(g.dataset.name) && g.dataset.name === chosen();
      g.setAttribute("aria-selected", String(mine));
      if (!mine) continue;
      const hit = g.querySelector(".hit"), at = (k) => Number(hit.getAttribute(k));
      g.append(lwMark("rect", { class: "ring", x: at("x") + 1, y: at("y") + 1, width: at("width") - 2, height: at("height") - 2, rx: 4,
        fill: "none", stroke: "var(--lw-ink)", "stroke-width": 2 }));
    }
  }
  function headings() {
    const [name, down] = [model.get("sort").replace(/^-/, ""), model.get("sort").startsWith("-")];
    for (const g of table.querySelectorAll(".sort")) {
      const mine = g.dataset.sort === name;
      g.setAttribute("aria-sort", mine ? (down ? "descending" : "ascending") : "none");
      if (mine) g.querySelector("text").textContent += down ? " ↓" : " ↑";
    }
  }
  function draw() {
    const f = frame(), fresh = table.shown !== f.table;
    stage.words(f);
    show(figures, f.figures); show(tree, f.tree); show(table, f.table); show(detail, f.detail);
    split.hidden = !f.tree;
    hint.hidden = Boolean(f.detail) || !f.table;
    if (fresh) headings();
    name();
    const ids = f.snapshots || [], versusNow = model.get("against");
    const all = versusNow != null && !ids.includes(versusNow) ? [versusNow, ...ids] : ids;
    versus.replaceChildren(lwEl("option", { value: "" }, "no other"), ...all.map((i) => lwEl("option", { value: i, selected: i === versusNow }, "#" + i)));
    versus.value = versusNow == null ? "" : String(versusNow);
    versus.disabled = fixed;
    mode.style.visibility = versusNow == null ? "hidden" : "visible";
    for (const b of mode.children) b.disabled = fixed;
    mode.show(model.get("mode"));
    if (document.activeElement !== search) search.value = model.get("search");
    const place = f.place || { first: 0, found: 0, step: 1 };
    back.disabled = fixed || place.first <= 0;
    on.disabled = fixed || place.first + place.step >= place.found;
    pager.hidden = place.found <= place.step;
    stage.root.dataset.n = String(rows().length);
    for (const g of nodes()) g.setAttribute("aria-selected", String(g.dataset.path === model.get("path")));
    ring(); card.hide();
  }
  tree.addEventListener("click", (event) => {
    const g = event.target.closest(".node");
    tree.focus({ preventScroll: true });
    if (!g) return;
    const path = g.dataset.path, foldable = g.hasAttribute("aria-expanded") && path;
    if (foldable && event.target.closest(".turn")) return toggle(path);
    if (foldable && g.getAttribute("aria-expanded") === "false") toggle(path, true);
    go(path);
  });
  const step = (by) => () => {
    const all = nodes(), at = all.findIndex((g) => g.dataset.path === model.get("path"));
    const to = all[Math.min(Math.max(at + by, 0), all.length - 1)];
    if (to) { go(to.dataset.path); stage.say(to.getAttribute("aria-label")); }
  };
  const fold = (open) => () => {
    const g = nodes().find((n) => n.dataset.path === model.get("path")), path = model.get("path");
    if (!open && path.includes("/")) return go(path.split("/")[0]);
    if (g && g.hasAttribute("aria-expanded") && path) toggle(path, open);
  };
  lwKeys(tree, { ArrowUp: step(-1), ArrowDown: step(1), ArrowRight: fold(true), ArrowLeft: fold(false), Home: step(-1e6), End: step(1e6), "/": () => search.focus() });
  table.addEventListener("click", (event) => {
    const heading = event.target.closest(".sort"), g = event.target.closest(".row");
    table.focus({ preventScroll: true });
    if (heading && !fixed) {
      const name = heading.dataset.sort, now = model.get("sort");
      return lwSet(model, { sort: now === name ? "-" + name : now === "-" + name ? "" : name });
    }
    if (!g) return;
    if (g.dataset.name) return pick(g.dataset.name);
    if (g.dataset.opens) { toggle(g.dataset.opens.split("/")[0], true); go(g.dataset.opens); }
  });
  const walk = (by) => () => {
    const all = rows().filter((g) => g.dataset.name), at = all.findIndex((g) => g.dataset.name === chosen());
    if (at >= 0 && (at + by < 0 || at + by >= all.length)) return turn(by);
    const to = all[Math.min(Math.max(at + by, 0), all.length - 1)];
    if (to) { pick(to.dataset.name); stage.say(to.getAttribute("aria-label")); }
  };
  lwKeys(table, { ArrowUp: walk(-1), ArrowDown: walk(1), PageUp: () => turn(-1), PageDown: () => turn(1), Escape: () => pick(""), "/": () => search.focus() });
  table.addEventListener("pointermove", (event) => {
    const g = event.target.closest(".row"), name = g && g.dataset.name, c = name && (frame().cards || {})[name];
    if ((name || "") !== model.get("hovered")) lwSet(model, { hovered: name || "" });
    if (!c) return card.hide();
    const [change, level, place, count, keys, masked] = c;
    card.show(event, name, [["level " + level, change === "kept" ? "live" : change], ["in", place], ["rows", count], ["keys", keys], ["masked", masked]]);
  });
  table.addEventListener("pointerleave", () => { card.hide(); if (model.get("hovered")) lwSet(model, { hovered: "" }); });
  detail.addEventListener("click", (event) => {
    const g = event.target.closest(".rg");
    if (g && !fixed) lwSet(model, { row_group: Number(g.dataset.group) });
  });
  search.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(() => lwSet(model, { search: search.value }), 300); });
  search.addEventListener("keydown", (event) => {
    event.stopPropagation();
    if (event.key === "Enter") { clearTimeout(timer); lwSet(model, { search: search.value }); }
    if (event.key === "Escape") { search.value = ""; lwSet(model, { search: "" }); table.focus(); }
  });
  stage.on("change:frame", draw);
  stage.on("change:selected", ring);
  draw();
  return () => { clearTimeout(timer); stage.off(); };
}
