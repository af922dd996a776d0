// LsmLevels: hover card, selection, keyboard walk over files, zoom by dragging, movement between snapshots.
function renderLevels({ model, el }) {
  const stage = lwStage(model, el, "levels");
  const over = lwEl("div", { class: "lw-over", role: "grid", "aria-label": "buckets of the table", tabindex: 0 });
  const worst = lwEl("span", { class: "lw-tools" }), opened = lwEl("div", { class: "lw-opened" });
  const host = lwEl("div", { class: "lw-pic", role: "grid", "aria-label": "levels", tabindex: 0 });
  const card = lwEl("div", { class: "lw-card", hidden: true });
  const strip = lwEl("div", { class: "lw-strip" });
  const mode = lwSegments("x axis", [["keys", "keys"], ["bytes", "bytes"]], (v) => lwSet(model, { mode: v }));
  const reset = lwButton("", "show all keys", () => lwSet(model, { key_range: [] }), { text: "Reset zoom" });
  const shade = lwSegments("colour by", [["runs", "runs"], ["files", "files"], ["bytes", "bytes"], ["deletes", "−D share"]],
    (v) => lwSet(model, { colour_by: v }));
  const row = lwEl("div", { class: "lw-row2" }, lwEl("span", { class: "lw-sub" }, "colour by"), shade, lwEl("span", { class: "lw-gap" }), worst);
  stage.tools.append(mode, reset);
  stage.body.append(row, over, opened, host, card, strip);
  let svg = null, drag = null;
  const frame = () => model.get("frame"), cards = () => frame().cards || [];
  const find = (name) => cards().find((c) => c.name === name);
  const chosen = () => (model.get("selected") || [])[0] || "";
  const groups = () => (svg ? [...svg.querySelectorAll(".file")] : []);
  const groupOf = (name) => groups().find((g) => g.dataset.name === name);

  function places() {
    return new Map(groups().map((g) => [g.dataset.name, { x: g.firstElementChild.getBoundingClientRect().left, g }]));
  }
  function move(before) {
    const files = groups();
    if (lwStill() || files.length + before.size > 600 || !before.size || !host.animate) return;
    const ease = { duration: 240, easing: "cubic-bezier(.2,0,0,1)" };
    for (const g of files) {
      const old = before.get(g.dataset.name);
      if (!old) { g.animate([{ opacity: 0 }, { opacity: 1 }], ease); continue; }
      const by = old.x - g.firstElementChild.getBoundingClientRect().left;
      if (Math.abs(by) > 0.5) g.animate([{ transform: `translateX(${by}px)` }, { transform: "none" }], ease);
      before.delete(g.dataset.name);
    }
    for (const { g } of before.values()) {
      const ghost = g.cloneNode(true);
      ghost.classList.replace("file", "gone");
      ghost.setAttribute("aria-hidden", "true");
      svg.append(ghost);
      ghost.animate([{ opacity: 1 }, { opacity: 0 }], ease).onfinish = () => ghost.remove();
    }
  }
  function ring() {
    if (!svg) return;
    svg.querySelectorAll(".ring").forEach((r) => r.remove());
    groups().forEach((g) => g.setAttribute("aria-selected", String(g.dataset.name === chosen())));
    const g = groupOf(chosen());
    if (g) {
      const b = g.getBBox();
      svg.append(lwMark("rect", { class: "ring", x: b.x - 3, y: b.y - 3, width: b.width + 6, height: b.height + 6, rx: 5,
        fill: "none", stroke: "var(--lw-ink)", "stroke-width": 2 }));
      stage.say(g.getAttribute("aria-label"));
    }
    detail();
  }
  const facts = (c) => [
    ["level", String(c.level)], ["size", c.bytes], ["rows", c.rows], ["keys", c.keys],
    ["from", c.from], ["sequence", c.sequence], ["deletes", c.deletes], ["same keys also in", also(c)]];
  function also(c) {
    const runs = [...new Set(cards().filter((o) => o.lane < c.lane && o.lo <= c.hi && o.hi >= c.lo).map((o) => o.run))];
    return runs.length ? `${runs.length} newer run${runs.length > 1 ? "s" : ""}: ${runs.slice(0, 6).join(", ")}${runs.length > 6 ? " …" : ""}` : "no newer run";
  }
  function detail() {
    const c = find(chosen());
    strip.replaceChildren();
    if (!c) {
      const words = cards().length ? "Click a file, or use the arrow keys, to see its keys, rows and sequence numbers." : "";
      return strip.append(lwEl("span", { class: "lw-sub" }, words));
    }
    strip.append(lwEl("div", { class: "lw-strip-head" }, lwEl("code", {}, c.name), lwEl("span", { class: "lw-sub" }, "Esc clears · Z zooms to it")));
    const grid = lwEl("div", { class: "lw-facts" });
    for (const [k, v] of facts(c)) grid.append(lwEl("div", {}, lwEl("span", {}, k), lwEl("span", { title: v }, v)));
    strip.append(grid);
  }
  function hover(g, event) {
    const c = g && find(g.dataset.name);
    card.hidden = !c;
    if ((c ? c.name : "") !== model.get("hovered")) lwSet(model, { hovered: c ? c.name : "" });
    if (!c) return;
    const rows = [[`L${c.level}, ${c.bytes}`, c.rows + " rows"], ["keys", c.keys], ["from", c.from], ["sequence", c.sequence]];
    if (c.deletes !== "0") rows.push(["deletes", c.deletes]);
    card.replaceChildren(lwEl("code", {}, c.short), ...rows.map(([k, v]) => lwEl("div", {}, lwEl("span", {}, k), lwEl("span", {}, v))));
    const box = stage.body.getBoundingClientRect(), wide = card.offsetWidth, tall = card.offsetHeight;
    const x = event.clientX - box.left, y = event.clientY - box.top;
    card.style.left = Math.max(4, Math.min(x + 14, box.width - wide - 4)) + "px";
    card.style.top = (y - tall - 12 > 0 ? y - tall - 12 : y + 18) + "px";
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
  function draw() {
    const f = frame(), before = places();
    stage.words(f);
    svg = f.svg ? stage.picture(host, f.svg) : null;
    host.setAttribute("aria-label", f.label || "levels");
    over.hidden = row.hidden = opened.hidden = !f.overview;
    if (f.overview) {
      over.innerHTML = f.overview;
      open();
      const chips = (f.worst || []).map(([id, words, runs]) => lwEl("button", {
        type: "button", class: "lw-chip", "aria-pressed": String(id === model.get("opened")), onclick: () => lwSet(model, { opened: id }) }, words + " ", lwEl("b", {}, runs)));
      worst.replaceChildren(lwEl("span", { class: "lw-sub lw-wide" }, "most runs first"), ...chips);
      opened.textContent = f.opened || "";
    }
    mode.show(model.get("mode")); shade.show(model.get("colour_by"));
    reset.disabled = !(model.get("key_range") || []).length || model.get("static");
    stage.root.dataset.n = String(groups().length);
    move(before); ring();
    card.hidden = true;
  }
  over.addEventListener("click", (event) => {
    const cell = event.target.closest(".cell");
    if (cell) lwSet(model, { opened: cell.dataset.bucket });
  });
  const cellStep = (dx) => () => {
    const all = [...over.querySelectorAll(".cell")], at = all.findIndex((c) => c.dataset.bucket === model.get("opened"));
    const to = all[Math.min(Math.max(at + dx, 0), all.length - 1)];
    if (to) lwSet(model, { opened: to.dataset.bucket });
  };
  lwKeys(over, { ArrowLeft: cellStep(-1), ArrowRight: cellStep(1) });
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
  host.addEventListener("pointerdown", (event) => {
    if (!svg) return;
    host.focus({ preventScroll: true });
    const can = model.get("mode") === "keys" && !model.get("static");
    drag = { x: event.clientX, from: can ? share(event) : null, mark: null };
    event.preventDefault();
  });
  host.addEventListener("pointermove", (event) => {
    if (!svg) return;
    if (drag && drag.from != null && Math.abs(event.clientX - drag.x) > 5) {
      const [left, top, wide, tall] = frame().meta.plot, [lo, hi] = frame().meta.view;
      const px = (v) => left + ((v - lo) / (hi - lo)) * wide, ends = [drag.from, share(event)].sort((a, b) => a - b);
      if (!drag.mark) { drag.mark = lwMark("rect", { class: "brush", y: top - 4, height: tall + 4, fill: "var(--lw-ink)", "fill-opacity": 0.08, stroke: "var(--lw-ink)" }); svg.append(drag.mark); }
      drag.mark.setAttribute("x", px(ends[0])); drag.mark.setAttribute("width", px(ends[1]) - px(ends[0]));
      drag.ends = ends; card.hidden = true;
      return;
    }
    hover(nearest(event), event);
  });
  host.addEventListener("pointerup", (event) => {
    const done = drag;
    drag = null;
    if (!done) return;
    if (done.mark) {
      done.mark.remove();
      if (done.ends[1] - done.ends[0] > 1e-9) lwSet(model, { key_range: done.ends });
      return;
    }
    const g = nearest(event);
    pick(g ? g.dataset.name : "");
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
  lwKeys(host, {
    ArrowLeft: sideways(-1), ArrowRight: sideways(1), ArrowUp: vertical(-1), ArrowDown: vertical(1),
    Escape: () => pick(""), "0": () => lwSet(model, { key_range: [] }),
    z: () => { const c = find(chosen()); if (c && c.hi > c.lo && !model.get("static")) lwSet(model, { key_range: [c.lo, c.hi] }); },
  });
  stage.on("change:frame", draw);
  stage.on("change:selected", ring);
  draw();
  return () => stage.off();
}
