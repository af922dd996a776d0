// ChangelogView: choose a snapshot, filter by key and kind, page through keys; with producers choose the key.
function renderChangelog({ model, el }) {
  const stage = lwStage(model, el, "changelog");
  const host = lwEl("div", { class: "lw-pic", role: "grid", "aria-label": "changelog", tabindex: 0 });
  const card = lwCard(stage);
  const field = lwEl("input", { type: "text", placeholder: "all", "aria-label": "keys that begin with", size: 8 });
  const label = lwEl("span", { class: "lw-sub" }, "key");
  const kinds = lwEl("span", { class: "lw-seg", role: "group", "aria-label": "row kinds" });
  const signs = ["+I", "−U", "+U", "−D"];
  for (const sign of signs) kinds.append(lwEl("button", { type: "button", "data-value": sign, onclick: () => pickKind(sign) }, sign));
  const raw = lwSegments("rows", [["changes", "before and after"], ["raw", "as written"]], (v) => lwSet(model, { mode: v }));
  const before = lwButton("prev", "keys before", () => turn(-1)), after = lwButton("next", "further keys", () => turn(1));
  const shown = lwEl("span", { class: "lw-sub" });
  const columns = lwEl("span", { class: "lw-tools lw-columns", role: "group", "aria-label": "column on the chips" });
  const keys = lwEl("span", { class: "lw-tools lw-columns", role: "group", "aria-label": "key" });
  stage.tools.append(label, field, kinds);
  stage.body.append(host);
  stage.foot.append(before, after, shown, raw, keys, columns);
  let svg = null;
  const frame = () => model.get("frame"), meta = () => frame().meta || {};
  const still = () => model.get("static"), sides = () => Boolean(frame().keys);

  function go(snapshot) { if (snapshot != null && snapshot !== model.get("snapshot")) lwSet(model, { snapshot }); }
  function step(by) {
    if (sides()) return stepKey(by);
    const ids = meta().ids || [], at = ids.indexOf(model.get("snapshot"));
    go(ids[Math.min(Math.max(at + by, 0), ids.length - 1)]);
  }
  function stepKey(by) {
    const all = frame().keys, at = all.indexOf(model.get("key")), to = all[Math.min(Math.max(at + by, 0), all.length - 1)];
    if (to !== undefined) lwSet(model, { key: to });
  }
  function turn(by) {
    const pages = frame().pages || [];
    if (by < 0 ? pages[0] : pages[1]) lwSet(model, { page: model.get("page") + by });
  }
  function pickKind(sign) {
    const chosen = model.get("kinds") || [];
    const next = chosen.includes(sign) ? chosen.filter((s) => s !== sign) : signs.filter((s) => s === sign || chosen.includes(s));
    lwSet(model, { kinds: next.length ? next : signs });
  }
  function chips(box, title, names, chosen, onpick) {
    const buttons = (names || []).map((name) => lwEl("button", { type: "button", class: "lw-chip", title: name, disabled: still() && box === columns,
      "aria-pressed": String(name === chosen), onclick: () => onpick(name) }, name));
    box.replaceChildren(...(buttons.length > 1 ? [lwEl("span", { class: "lw-sub" }, title), ...buttons] : []));
  }
  // A page without a kernel holds all changes of a snapshot's window: what is filtered out is hidden there.
  function sift() {
    if (!svg || !still()) return;
    const chosen = model.get("kinds") || signs, text = model.get("key").trim().toLowerCase();
    for (const chip of svg.querySelectorAll(".chip")) chip.style.display = chosen.includes(chip.dataset.kind) ? "" : "none";
    if (sides()) return;
    for (const row of svg.querySelectorAll(".row")) row.style.display = row.dataset.key.toLowerCase().startsWith(text) ? "" : "none";
  }
  function hover(cell, event) {
    const rows = cell && (meta().cards || {})[cell.dataset.cell], name = cell ? cell.dataset.cell : "";
    if (name !== model.get("hovered")) lwSet(model, { hovered: name });
    if (rows) card.show(event, "", rows);
    else card.hide();
  }
  // The keys of the selected snapshot from top to bottom: all columns of a change are shown and spoken.
  function walk(by) {
    const mine = [...host.querySelectorAll(`.cell[data-snapshot="${model.get("snapshot")}"]`)];
    if (!mine.length) return;
    const current = mine.findIndex((c) => c.dataset.cell === model.get("hovered"));
    const cell = mine[current < 0 ? (by > 0 ? 0 : mine.length - 1) : Math.min(Math.max(current + by, 0), mine.length - 1)];
    const box = cell.getBoundingClientRect();
    hover(cell, { clientX: box.right, clientY: box.top });
    stage.say(cell.getAttribute("aria-label"));
  }
  function draw() {
    const f = frame(), chosen = model.get("kinds") || [], both = sides();
    stage.words(f);
    svg = f.svg ? stage.picture(host, f.svg) : null;
    host.setAttribute("aria-label", f.label || "changelog");
    for (const b of kinds.children) b.setAttribute("aria-pressed", String(chosen.includes(b.dataset.value)));
    kinds.hidden = label.hidden = field.hidden = before.hidden = after.hidden = shown.hidden = both;
    keys.hidden = !both;
    raw.hidden = both || !f.raw;
    raw.show(model.get("mode"));
    for (const b of raw.children) b.disabled = still();
    const pages = f.pages || [false, false];
    before.disabled = !pages[0]; after.disabled = !pages[1];
    shown.textContent = f.shown || "";
    chips(columns, "column", f.columns, f.column, (name) => lwSet(model, { columns: [name] }));
    chips(keys, "key", f.keys, model.get("key"), (name) => lwSet(model, { key: name }));
    if (document.activeElement !== field && !both) field.value = model.get("key");
    stage.root.dataset.n = String(svg ? svg.querySelectorAll(".chip").length : 0);
    card.hide();
    sift();
    if (meta().says) stage.say(meta().says);
  }
  host.addEventListener("click", (event) => {
    const hit = event.target.closest("[data-snapshot]");
    host.focus({ preventScroll: true });
    if (hit) go(Number(hit.dataset.snapshot));
  });
  host.addEventListener("pointermove", (event) => hover(event.target.closest(".cell"), event));
  host.addEventListener("pointerleave", (event) => hover(null, event));
  const end = (at) => () => { const ids = meta().ids || []; go(ids.at(at)); };
  lwKeys(host, {
    ArrowLeft: () => step(-1), ArrowRight: () => step(1), Home: end(0), End: end(-1),
    ArrowUp: () => walk(-1), ArrowDown: () => walk(1), Escape: () => hover(null),
    PageUp: () => turn(-1), PageDown: () => turn(1), "/": () => { field.focus(); field.select(); },
  });
  field.addEventListener("input", () => lwSet(model, { key: field.value }));
  field.addEventListener("keydown", (event) => {
    event.stopPropagation();
    if (event.key === "Escape") { field.value = ""; lwSet(model, { key: "" }); host.focus(); }
    if (event.key === "Enter") host.focus();
  });
  stage.on("change:frame", draw);
  stage.on("change:kinds", () => { if (still()) draw(); });
  stage.on("change:key", () => { if (still()) sift(); });
  draw();
  return () => stage.off();
}
