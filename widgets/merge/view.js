// MergeView: step through the keys, choose engine, columns and window; hover card. Python draws every state.
function renderMerge({ model, el }) {
  const stage = lwStage(model, el, "merge");
  const host = lwEl("div", { class: "lw-pic", role: "grid", "aria-label": "merge", tabindex: 0 });
  const card = lwCard(stage);
  const engines = lwEl("span", { class: "lw-engines" });
  const at = lwEl("span", { class: "lw-sub lw-at" });
  const mode = lwSegments("show", [["keys", "keys"], ["columns", "columns"]], (v) => lwSet(model, { mode: v }));
  const play = lwButton("play", "play", () => toggle());
  const earlier = lwButton("prev", "earlier keys", () => model.send({ verb: "earlier" }), { text: "Earlier" });
  const later = lwButton("next", "later keys", () => model.send({ verb: "later" }), { text: "Later" });
  const chips = lwEl("span", { class: "lw-tools lw-columns", role: "group", "aria-label": "columns" });
  stage.tools.append(mode, lwButton("first", "before the merge", () => go(-1)), play, lwButton("last", "last key", () => go(count() - 1)), at);
  stage.body.append(engines, host);
  stage.foot.append(earlier, later, chips);
  let svg = null, timer = null, shownEngines = "";
  const frame = () => model.get("frame"), meta = () => frame().meta || {};
  const count = () => meta().steps || 0, cursor = () => model.get("cursor");
  const still = () => model.get("static");

  function go(to) {
    const wanted = Math.min(Math.max(to, -1), count() - 1);
    if (wanted !== cursor()) lwSet(model, { cursor: wanted });
  }
  function showPlay() {
    play.replaceChildren(lwIcon(timer ? "pause" : "play"));
    play.setAttribute("aria-label", timer ? "pause" : "play");
  }
  function toggle() {
    if (timer) { clearTimeout(timer); timer = null; return showPlay(); }
    if (cursor() >= count() - 1) go(-1);
    const tick = () => {
      if (cursor() >= count() - 1) { timer = null; return showPlay(); }
      go(cursor() + 1);
      timer = setTimeout(tick, 700);
    };
    timer = setTimeout(tick, 700);
    showPlay();
  }
  function choose() {
    const names = frame().engines || [], key = names.join("|");
    if (key !== shownEngines) {
      shownEngines = key;
      engines.replaceChildren(lwSegments("merge engine", names.map((n) => [n, n]), (v) => lwSet(model, { engine: v })));
    }
    const box = engines.firstElementChild;
    if (!box) return;
    box.show(model.get("engine"));
    for (const b of box.children) b.disabled = still() && b.dataset.value !== model.get("engine");
  }
  function pickColumn(name) {
    const shown = (frame().columns || []).filter(([, on]) => on).map(([n]) => n);
    const next = model.get("mode") === "keys" ? [name]
      : shown.includes(name) ? shown.filter((n) => n !== name) : [...shown, name];
    lwSet(model, { columns: next });
  }
  function showColumns() {
    const names = frame().columns || [], single = model.get("mode") === "keys";
    const lit = (name, on) => (single ? name === meta().column : on);
    const buttons = names.map(([name, on]) => lwEl("button", { type: "button", class: "lw-chip", title: name,
      disabled: still(), "aria-pressed": String(lit(name, on)), onclick: () => pickColumn(name) }, name));
    chips.replaceChildren(...(names.length > 1 ? [lwEl("span", { class: "lw-sub" }, "columns"), ...buttons] : []));
  }
  function hover(cell, event) {
    const rows = cell && (meta().cards || {})[cell.dataset.cell], name = cell ? cell.dataset.cell : "";
    if (name !== model.get("hovered")) lwSet(model, { hovered: name });
    if (rows) card.show(event, "", rows);
    else card.hide();
  }
  // The boxes of the current key from top to bottom: what one says whole is shown and spoken.
  function walk(by) {
    const mine = [...host.querySelectorAll(`.cell[data-cell^="${Math.max(cursor(), 0)}|"]`)].filter((c) => !c.dataset.cell.endsWith("|key"));
    if (!mine.length) return;
    const current = mine.findIndex((c) => c.dataset.cell === model.get("hovered"));
    const cell = mine[current < 0 ? (by > 0 ? 0 : mine.length - 1) : Math.min(Math.max(current + by, 0), mine.length - 1)];
    const box = cell.getBoundingClientRect();
    hover(cell, { clientX: box.right, clientY: box.top });
    stage.say(cell.getAttribute("aria-label"));
  }
  function draw() {
    const f = frame();
    stage.words(f);
    svg = f.svg ? stage.picture(host, f.svg) : null;
    host.setAttribute("aria-label", f.label || "merge");
    at.textContent = cursor() < 0 ? "not merged yet" : `key ${cursor() + 1} of ${count()}`;
    earlier.disabled = still() || !f.earlier;
    later.disabled = still() || !f.later;
    mode.show(model.get("mode"));
    choose(); showColumns();
    stage.root.dataset.n = String(count());
    stage.root.dataset.cursor = String(cursor());
    card.hide();
    if (meta().says) stage.say(meta().says);
  }
  host.addEventListener("click", (event) => {
    const cell = event.target.closest(".cell");
    host.focus({ preventScroll: true });
    if (cell) go(Number(cell.dataset.cell.split("|")[0]));
  });
  host.addEventListener("pointermove", (event) => hover(event.target.closest(".cell"), event));
  host.addEventListener("pointerleave", (event) => hover(null, event));
  const by = (n) => () => go(cursor() + n);
  lwKeys(host, {
    ArrowLeft: by(-1), ArrowRight: by(1), Home: () => go(-1), End: () => go(count() - 1), " ": toggle,
    ArrowUp: () => walk(-1), ArrowDown: () => walk(1), Escape: () => hover(null),
    PageDown: () => later.click(), PageUp: () => earlier.click(),
    c: () => lwSet(model, { mode: model.get("mode") === "keys" ? "columns" : "keys" }),
  });
  stage.on("change:frame", draw);
  draw(); showPlay();
  return () => { clearTimeout(timer); stage.off(); };
}
