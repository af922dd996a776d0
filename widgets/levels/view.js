// LsmLevels: hover card, selection, keyboard walk over files, zoom by dragging; movement is in motion.js.
const SHADES = [["runs", "runs"], ["files", "files"], ["bytes", "bytes"], ["deletes", "−D share"], ["masked", "DV share"]];
function renderLevels({ model, el }) {
  const stage = lwStage(model, el, "levels");
  const over = lwEl("div", { class: "lw-over", role: "grid", "aria-label": "buckets of the table", tabindex: 0 });
  const worst = lwEl("span", { class: "lw-tools lw-worst" }), opened = lwEl("div", { class: "lw-opened" });
  const host = lwEl("div", { class: "lw-pic", role: "grid", "aria-label": "levels", tabindex: 0 });
  const strip = lwEl("div", { class: "lw-strip" });
  const mode = lwSegments("x axis", [["keys", "keys"], ["bytes", "bytes"]], (v) => lwSet(model, { mode: v }));
  const fill = lwSegments("fill by", [["level", "level"], ["origin", "age"]], (v) => lwSet(model, { fill_by: v }));
  const reset = lwButton("", "show all keys", () => lwSet(model, { key_range: [] }), { text: "Reset zoom" });
  const shade = lwSegments("colour by", SHADES, (v) => lwSet(model, { colour_by: v }));
  const whole = lwButton("", "show or hide the overview of all buckets", () => { unfolded = !unfolded; draw(); }, { text: "All buckets" });
  const paint = lwEl("span", { class: "lw-tools" }, lwEl("span", { class: "lw-sub" }, "colour by"), shade);
  const row = lwEl("div", { class: "lw-row2" }, whole, paint, lwEl("span", { class: "lw-gap" }), worst);
  const frameBox = lwEl("div", { class: "lw-one" }, opened, host, strip);
  stage.tools.append(fill, mode, reset);
  stage.body.append(row, over, frameBox);
  const card = lwCard(stage), motion = levelsMotion(host);
  let svg = null, drag = null, history = null, shown = {};
  let unfolded = !el.closest(".lw-bench"); // a workbench shows one bucket; its overview opens on demand
  whole.hidden = unfolded;
  const moments = lwMoments(stage, model, () => draw());
  // What is shown: Python's frame where it is of this moment, else the moment drawn here from the history.
  const frame = () => shown;
  function pictured() {
    const f = model.get("frame"), at = moments.at(), place = model.get("opened");
    const [mode, fill_by, view] = [model.get("mode"), model.get("fill_by"), [...(model.get("key_range") || [])]];
    const own = f.svg && JSON.stringify(f.of || []) === JSON.stringify([at, place, mode, fill_by, view]);
    if (!own && model.get("static") && model.get("edits") && history && !history.covers(at)) return { ...f, title: `Levels at #${at}`, drawn: "python", error: absent(at) };
    if (own || at == null || !f.sheet || !history || !history.covers(at)) return { ...f, drawn: "python" };
    const drawn = levelsPicture(history, at, place, f.sheet, { width: f.sheet.width, mode, view, fill_by });
    const words = { title: `Levels at #${at}`, subtitle: [drawn.many, drawn.total, ...(f.sheet.placed ? [drawn.where] : [])].join(" · ") };
    if (f.overview) {
      const cells = history.cells(at), all = (name) => cells.reduce((sum, c) => sum + c[name], 0);
      const parts = [lwPlural(new Set(cells.map((c) => c.id.slice(0, c.id.lastIndexOf("/")))).size, "partition"), lwPlural(cells.length, "bucket")];
      words.subtitle = [...parts, lwPlural(all("files"), "file"), lwBytes(all("bytes"))].join(" · ");
      Object.assign(words, { cells: f.of[0] === at ? null : cells });
    }
    if (f.sheet.window) words.subtitle += " · " + f.sheet.window;
    if (!f.sheet.placed) words.whole = history.cells(at);
    return { ...f, ...drawn, ...words, error: null, drawn: "page" };
  }
  const absent = (at) => ({ what: "This part is not in the file.", text: `levels of #${at}; in the file: #${history.first} – #${history.last}`, next: "Open the table with a kernel." });
  async function read() {
    const base = model.get("edits"), tail = model.get("tail");
    const next = base && base.byteLength ? await lwHistory(base, tail) : null;
    if (base !== model.get("edits") || tail !== model.get("tail")) return;
    history = next;
    stage.root.dataset.history = next ? `${next.first}-${next.last}` : "";
    if (model.get("local") !== Boolean(next) && !model.get("static")) lwSet(model, { local: Boolean(next) });
    draw();
  }
  const cards = () => frame().cards || [];
  const find = (name) => cards().find((c) => c.name === name);
  const chosen = () => (model.get("selected") || [])[0] || "";
  const groups = () => (svg ? [...svg.querySelectorAll(".file")] : []);
  const canZoom = () => frame().keyed !== false && model.get("mode") === "keys" && !model.get("static");

  function ring() {
    if (!svg) return;
    svg.querySelectorAll(".ring").forEach((r) => r.remove());
    const name = chosen();
    for (const g of groups()) {
      const on = g.dataset.name === name;
      g.setAttribute("aria-selected", String(on));
      if (!on) continue;
      const b = g.getBBox();
      svg.append(lwMark("rect", { class: "ring", x: b.x - 3, y: b.y - 3, width: b.width + 6, height: b.height + 6, rx: 5,
        fill: "none", stroke: "var(--lw-ink)", "stroke-width": 2 }));
      stage.say(g.getAttribute("aria-label"));
    }
    detail();
  }
  function also(c) {
    const runs = [...new Set(cards().filter((o) => o.lane < c.lane && o.lo <= c.hi && o.hi >= c.lo).map((o) => o.run))];
    const unseen = ((frame().meta || {}).binned || []).some((lane) => lane < c.lane) ? " and rows without boxes" : "";
    if (!runs.length) return unseen ? "rows without boxes: zoom in" : "no newer run";
    return `${runs.length} newer run${runs.length > 1 ? "s" : ""}: ${runs.slice(0, 6).join(", ")}${runs.length > 6 ? " …" : ""}${unseen}`;
  }
  const facts = (c) => [
    ["level", String(c.level)], ["size", c.bytes], ["rows", c.rows], ["keys", c.keys],
    ["from", c.from], ["deletes", c.deletes], ["masked", c.masked], ["sequence", c.sequence], ["same keys also in", also(c)]];
  function pairs(rows) {
    const grid = lwEl("div", { class: "lw-facts lw-facts-file" });
    for (const [k, v] of rows) grid.append(lwEl("div", { "data-fact": k }, lwEl("span", {}, k), lwEl("span", { title: v }, v)));
    return grid;
  }
  function detail() {
    const c = find(chosen());
    strip.replaceChildren();
    if (!c) {
      const unseen = chosen() ? `${chosen()} is not drawn as a box here.` : "Click a file, or use the arrow keys, to see its keys, rows and sequence numbers.";
      strip.hidden = !cards().length && !chosen();
      strip.append(lwEl("div", { class: "lw-strip-head" }, lwEl("b", {}, (frame().bucket || {}).name || ""), lwEl("span", { class: "lw-hint" }, unseen)));
      return strip.append(pairs((frame().bucket || {}).facts || []));
    }
    strip.hidden = false;
    const keys = `Esc clears${canZoom() ? " · Z zooms to it" : ""} · Enter opens row groups`;
    strip.append(lwEl("div", { class: "lw-strip-head" }, lwEl("code", { title: c.name }, c.name), lwEl("span", { class: "lw-hint" }, keys)));
    strip.append(pairs(facts(c)));
  }
  function hover(g, event) {
    const c = g && find(g.dataset.name), name = c ? c.name : "";
    if (name !== model.get("hovered")) lwSet(model, { hovered: name });
    if (!c) return card.hide();
    const rows = [[`L${c.level}, ${c.bytes}`, c.rows + " rows"], ["keys", c.keys], ["from", c.from], ["sequence", c.sequence]];
    if (c.deletes !== "0") rows.push(["deletes", c.deletes]);
    if (c.masked !== "–") rows.push(["masked", c.masked]);
    if (c.next) rows.push(["next", c.next]);
    card.show(event, c.short, rows);
  }
  function pick(name) { lwSet(model, { selected: name ? [name] : [] }); }
  function open() {
    const cell = [...over.querySelectorAll(".cell")].find((c) => c.dataset.bucket === model.get("opened"));
    if (!cell) return;
    const b = cell.querySelector(".box").getBBox(), ink = "var(--lw-ink)";
    cell.parentNode.append(
      lwMark("rect", { x: b.x - 3, y: b.y - 3, width: b.width + 6, height: b.height + 6, rx: 4, fill: "none", stroke: ink, "stroke-width": 2, class: "ring" }),
      lwMark("path", { d: `M${b.x + b.width / 2} ${b.y + b.height + 3}v6`, stroke: ink, "stroke-width": 2 }));
  }
  function overview(f) {
    row.hidden = opened.hidden = !f.overview;
    over.hidden = paint.hidden = !f.overview || !unfolded;
    whole.setAttribute("aria-expanded", String(unfolded));
    frameBox.classList.toggle("lw-framed", Boolean(f.overview) && unfolded);
    if (!f.overview) return;
    over.innerHTML = f.overview;
    if (f.cells) levelsOverview(over, f.cells, f.sheet.cells, model.get("colour_by"));
    lwRoles(over);
    open();
    const chips = (f.cells ? levelsWorst(f.cells, f.worst_most) : f.worst || []).map(([id, words, runs]) => lwEl("button", {
      type: "button", class: "lw-chip", "aria-pressed": String(id === model.get("opened")), title: words, onclick: () => lwSet(model, { opened: id }) }, lwPlace(lwEl("span", {}), words, "/"), " ", lwEl("b", {}, runs)));
    worst.replaceChildren(lwEl("span", { class: "lw-sub lw-wide" }, "worst first"), ...chips);
    lwPlace(opened, f.opened || "", " · bucket");
  }
  function draw() {
    const before = motion.places(groups()), f = (shown = pictured());
    f.cards = (f.cards || []).map(lvCard);
    f.bucket = f.bucket && f.bucket.name ? lvBucket(f.bucket) : {};
    stage.words(f);
    svg = f.svg ? stage.picture(host, f.svg) : null;
    host.setAttribute("aria-label", f.label || "levels");
    overview(f);
    mode.show(f.keyed === false ? "bytes" : model.get("mode")); fill.show(model.get("fill_by")); shade.show(model.get("colour_by"));
    mode.hidden = f.keyed === false;
    fill.hidden = model.get("static") || f.keyed === false;
    reset.hidden = f.keyed === false || model.get("static");
    reset.disabled = !(model.get("key_range") || []).length;
    stage.root.dataset.n = String(groups().length);
    Object.assign(stage.root.dataset, { drawn: f.drawn, snapshot: String(moments.at()), files: String(cards().length) });
    // The head of a workbench says how much there is at the moment that is shown.
    stage.root.dispatchEvent(new CustomEvent("lw-files", { bubbles: true, detail: f.drawn === "page" ? f.whole : null }));
    if (svg) motion.play(svg, before, groups(), { level: (name) => (find(name) || {}).level, plot: f.meta.plot });
    ring();
    card.hide();
  }
  over.addEventListener("click", (event) => {
    const cell = event.target.closest(".cell");
    if (cell) lwSet(model, { opened: cell.dataset.bucket });
  });
  const cellStep = (dx, dy) => () => {
    const all = [...over.querySelectorAll(".cell")], box = (c) => c.querySelector(".box").getBBox();
    const from = all.find((c) => c.dataset.bucket === model.get("opened")) || all[0];
    if (!from) return;
    const at = box(from), way = (b) => (dx ? (b.x - at.x) * dx : (b.y - at.y) * dy);
    const off = (b) => Math.abs(dx ? b.y - at.y : b.x - at.x);
    const there = all.map((c) => [c, box(c)]).filter(([, b]) => way(b) > 1 && off(b) < 2).sort((a, b) => way(a[1]) - way(b[1]))[0];
    if (there) lwSet(model, { opened: there[0].dataset.bucket });
  };
  lwKeys(over, { ArrowLeft: cellStep(-1, 0), ArrowRight: cellStep(1, 0), ArrowUp: cellStep(0, -1), ArrowDown: cellStep(0, 1) });
  function nearest(event) {
    const direct = event.target.closest && event.target.closest(".file");
    if (direct) return direct;
    let best = null, reach = 12;
    for (const g of groups()) {
      const b = g.firstElementChild.getBoundingClientRect();
      const dx = Math.max(b.left - event.clientX, 0, event.clientX - b.right), dy = Math.max(b.top - event.clientY, 0, event.clientY - b.bottom);
      if (Math.hypot(dx, dy) < reach) { reach = Math.hypot(dx, dy); best = g; }
    }
    return best;
  }
  const share = (event) => {
    const [x] = lwPoint(svg, event), [left, , wide] = frame().meta.plot, [lo, hi] = frame().meta.view;
    return Math.min(Math.max(lo + ((x - left) / wide) * (hi - lo), lo), hi);
  };
  function brush(event) {
    const [left, top, wide, tall] = frame().meta.plot, [lo, hi] = frame().meta.view;
    const px = (v) => left + ((v - lo) / (hi - lo)) * wide;
    drag.ends = [drag.from, share(event)].sort((a, b) => a - b);
    if (!drag.mark) {
      drag.mark = lwMark("rect", { class: "brush", y: top - 4, height: tall + 4, fill: "var(--lw-ink)", "fill-opacity": 0.08, stroke: "var(--lw-ink)" });
      svg.append(drag.mark);
    }
    drag.mark.setAttribute("x", px(drag.ends[0])); drag.mark.setAttribute("width", px(drag.ends[1]) - px(drag.ends[0]));
    hover(null, event);
  }
  host.addEventListener("pointerdown", (event) => {
    if (!svg || event.button) return;
    drag = { x: event.clientX, from: canZoom() ? share(event) : null, mark: null };
  });
  host.addEventListener("pointermove", (event) => {
    if (!svg) return;
    if (drag && drag.from != null && Math.abs(event.clientX - drag.x) > 5) return brush(event);
    hover(nearest(event), event);
  });
  host.addEventListener("pointerup", (event) => {
    const done = drag;
    drag = null;
    if (!done) return;
    if (!done.mark) { const g = nearest(event); return pick(g ? g.dataset.name : ""); }
    done.mark.remove();
    if (done.ends[1] - done.ends[0] > 1e-9) lwSet(model, { key_range: done.ends });
  });
  host.addEventListener("pointerleave", (event) => { hover(null, event); if (drag && drag.mark) drag.mark.remove(); drag = null; });
  const sideways = (by) => () => {
    const all = cards(), c = find(chosen());
    if (!all.length) return;
    if (!c) return pick(all[0].name);
    const lane = all.filter((o) => o.lane === c.lane), to = lane[lane.indexOf(c) + by];
    if (to) pick(to.name);
  };
  const vertical = (by) => () => {
    const all = cards(), c = find(chosen());
    if (!all.length) return;
    if (!c) return pick(all[0].name);
    const lanes = [...new Set(all.map((o) => o.lane))], to = lanes[lanes.indexOf(c.lane) + by];
    const centre = (c.lo + c.hi) / 2, gap = (o) => Math.abs((o.lo + o.hi) / 2 - centre);
    const best = all.filter((o) => o.lane === to).sort((a, b) => gap(a) - gap(b))[0];
    if (best) pick(best.name);
  };
  function enter() {
    if (!find(chosen())) return;
    lwSet(model, { entered: "" });
    lwSet(model, { entered: chosen() });
    stage.say("row groups of " + chosen());
  }
  const zoom = () => { const c = find(chosen()); if (c && c.hi > c.lo && canZoom()) lwSet(model, { key_range: [c.lo, c.hi] }); };
  lwKeys(host, {
    ArrowLeft: sideways(-1), ArrowRight: sideways(1), ArrowUp: vertical(-1), ArrowDown: vertical(1),
    Escape: () => pick(""), Enter: enter, "0": () => lwSet(model, { key_range: [] }), z: zoom, Z: zoom,
  });
  // A frame of another moment than the one shown changes nothing that is seen.
  stage.on("change:frame", () => { const f = model.get("frame"); if (shown.drawn !== "page" || !f.of || f.of[0] === moments.at() || !f.sheet) draw(); });
  for (const name of ["opened", "mode", "fill_by", "key_range"]) stage.on("change:" + name, () => { if (history) draw(); });
  for (const name of ["edits", "tail"]) stage.on("change:" + name, read);
  stage.on("change:selected", ring);
  stage.on("change:line", () => stage.words({ ...frame(), code: model.get("line") }));
  draw(); read();
  return () => stage.off();
}
