// PruningExplainer: a condition typed into a box, rules, one bucket's files; hover, click and arrow keys.
function renderPruning({ model, el }) {
  const stage = lwStage(model, el, "pruning");
  const box = lwEl("input", { type: "text", class: "lw-where", spellcheck: "false", autocomplete: "off",
    "aria-label": "condition" });
  const status = lwEl("div", { class: "lw-problem", role: "status", "aria-live": "polite" });
  const ask = lwEl("div", { class: "lw-ask" }, lwEl("span", { class: "lw-sub" }, "where"), box);
  const mode = lwSegments("bar length", [["files", "files"], ["bytes", "bytes"]], (v) => lwSet(model, { mode: v }));
  stage.tools.append(lwEl("span", { class: "lw-sub lw-wide" }, "bar length"), mode);
  const rules = lwEl("div", { class: "lw-pic lw-rules" }), heading = lwEl("div", { class: "lw-pic lw-heading" });
  const chips = lwEl("div", { class: "lw-row2 lw-buckets" });
  const host = lwEl("div", { class: "lw-pic lw-lanes", tabindex: 0, role: "grid", "aria-label": "files of the bucket" });
  const panel = lwEl("div", { class: "lw-pic lw-panel" });
  const glance = lwEl("div", { class: "lw-glance", role: "group", "aria-label": "columns at a glance" });
  stage.body.append(ask, status, glance, rules, heading, chips, host, panel);
  const card = lwCard(stage);
  let svg = null, timer = null;
  const frame = () => model.get("frame");
  const find = (name) => (frame().cards || []).find((c) => c.name === name);
  const chosen = () => (model.get("selected") || [])[0] || "";
  const files = () => (svg ? [...svg.querySelectorAll(".file")] : []);

  function send() {
    clearTimeout(timer);
    if (!model.get("static") && box.value !== model.get("where")) lwSet(model, { where: box.value });
  }
  const clicked = {}; // the condition that a bar of each column gave last
  let turn = 0; // the button of the columns that is their tab stop
  const asked = (condition) => { // as a whole, not as a part of a longer word or number
    const where = model.get("where"), at = condition ? where.indexOf(condition) : -1;
    return at >= 0 && !/[\w.'"]/.test((where[at - 1] || " ") + (where[at + condition.length] || " "));
  };
  const buttons = () => [...glance.querySelectorAll("button:not(:disabled)")];
  function stop(at, focus) {
    const all = buttons();
    turn = Math.min(Math.max(at, 0), Math.max(all.length - 1, 0));
    all.forEach((b, i) => { b.tabIndex = i === turn ? 0 : -1; });
    if (focus && all[turn]) all[turn].focus({ preventScroll: false });
  }
  function narrow(name, condition) {
    const before = model.get("where"), old = clicked[name];
    if (!asked(old)) box.value = !before ? condition : (/\bOR\b/i.test(before) ? `(${before})` : before) + " AND " + condition;
    else box.value = before.replace(old, () => condition);
    clicked[name] = condition;
    send();
  }
  const part = (name, still, [height, words, condition]) => lwEl("button", { type: "button", class: "lw-bar", title: words, "aria-label": `${name}, ${words}`,
    ...(still || !condition ? { disabled: "" } : {}), "aria-pressed": String(asked(condition)),
    style: `--height:${height}`, onclick: () => narrow(name, condition) });
  function look() {
    const columns = frame().glance || [], still = Boolean(model.get("static")), had = glance.contains(document.activeElement);
    glance.hidden = !columns.length;
    glance.replaceChildren(...columns.map((c) => {
      const [nulls, none] = c.nulls, told = nulls && lwEl("button", { type: "button", class: "lw-link", ...(still ? { disabled: "" } : {}), onclick: () => narrow(c.name, none) }, nulls);
      return lwEl("div", { class: "lw-column" }, lwEl("b", { title: c.name }, c.name), lwEl("span", { class: "lw-sub" }, c.type),
        lwEl("span", { class: "lw-sub" }, c.distinct || "\u00a0"), lwEl("span", { class: "lw-sub" }, told || "no NULLs"), lwEl("div", { class: "lw-spread" }, ...c.bars.map((bar) => part(c.name, still, bar))),
        lwEl("span", { class: "lw-sub lw-ends" }, lwEl("span", { title: c.ends[0] }, c.ends[0]), lwEl("span", { title: c.ends[1] }, c.ends[1])));
    }));
    stop(turn, had);
  }
  glance.addEventListener("click", (event) => { const at = buttons().indexOf(event.target); if (at >= 0) stop(at, true); }, true);
  function insert(name) {
    const quoted = /^[A-Za-z_]\w*$/.test(name) ? name : '"' + name.replaceAll('"', '""') + '"';
    const at = box.selectionStart ?? box.value.length;
    box.setRangeText((at && !/\s$/.test(box.value.slice(0, at)) ? " " : "") + quoted + " ", at, box.selectionEnd ?? at, "end");
    box.focus();
  }
  function help() {
    const problem = frame().problem || {};
    box.setAttribute("aria-invalid", String(Boolean(problem.text)));
    status.classList.toggle("lw-bad", Boolean(problem.text));
    if (problem.text) {
      const before = box.value.slice(0, problem.start ?? 0), part = box.value.slice(problem.start ?? 0, (problem.start ?? 0) + problem.length);
      const place = problem.start == null ? [] : [lwEl("code", {}, before.slice(-24), lwEl("mark", {}, part || "⌃"))];
      return status.replaceChildren("✕ ", ...place, " ", problem.text);
    }
    if (model.get("static")) return status.replaceChildren("a page without a kernel: the condition is as it was when this was made");
    const names = (frame().columns || []).map(([name, type, note]) => lwEl("button", { type: "button", class: "lw-chip",
      title: type + (note ? ", " + note : ""), onclick: () => insert(name) }, name));
    box.placeholder = names.length ? `all rows; a condition on columns, such as ${names[0].textContent} IS NOT NULL` : "";
    status.replaceChildren(lwEl("span", { class: "lw-sub" }, "columns"), ...names);
  }
  function ring() {
    if (!svg) return;
    svg.querySelectorAll(".ring").forEach((r) => r.remove());
    for (const g of files()) {
      const mine = g.dataset.name === chosen();
      g.setAttribute("aria-selected", String(mine));
      if (!mine) continue;
      const b = g.querySelector(".box").getBBox();
      svg.append(lwMark("rect", { class: "ring", x: b.x - 3, y: b.y - 3, width: b.width + 6, height: b.height + 6, rx: 5,
        fill: "none", stroke: "var(--lw-ink)", "stroke-width": 2 }));
    }
  }
  function show(place, picture) {
    if (place.shown === picture) return;
    place.shown = picture;
    stage.picture(place, picture || "");
  }
  function draw() {
    const f = frame();
    stage.words(f);
    if (document.activeElement !== box && box.value !== model.get("where")) box.value = model.get("where");
    box.disabled = Boolean(model.get("static"));
    show(rules, f.rules); show(heading, f.heading); show(host, f.lanes); show(panel, f.panel);
    rules.setAttribute("role", "img"); rules.setAttribute("aria-label", f.label || "rules");
    svg = host.querySelector("svg");
    const open = (f.chips || []).map(([id, words, read]) => lwEl("button", { type: "button", class: "lw-chip",
      "aria-pressed": String(id === model.get("opened")), onclick: () => lwSet(model, { opened: id }) }, words + " ", lwEl("b", {}, read)));
    chips.hidden = open.length < 2;
    chips.replaceChildren(lwEl("span", { class: "lw-sub lw-wide" }, "most files read first"), ...open);
    heading.hidden = host.hidden = panel.hidden = !f.lanes;
    mode.show(model.get("mode"));
    stage.root.dataset.n = String(files().length);
    help(); look(); ring(); card.hide();
    if (f.says) stage.say(f.says);
  }
  const pick = (name) => { if (name && name !== chosen()) lwSet(model, { selected: [name] }); };
  host.addEventListener("click", (event) => {
    const g = event.target.closest(".file");
    host.focus({ preventScroll: true });
    if (g) pick(g.dataset.name);
  });
  host.addEventListener("pointermove", (event) => {
    const g = event.target.closest(".file"), c = g && find(g.dataset.name);
    if ((c ? c.name : "") !== model.get("hovered")) lwSet(model, { hovered: c ? c.name : "" });
    if (!c) return card.hide();
    card.show(event, c.short, [["", c.verdict], ["compared", c.compared || "–"], ["keys", c.keys], ["size", c.size]]);
  });
  host.addEventListener("pointerleave", () => { card.hide(); if (model.get("hovered")) lwSet(model, { hovered: "" }); });
  rules.addEventListener("pointermove", (event) => {
    const g = event.target.closest(".rule");
    if (!g || !g.dataset.reason) return card.hide();
    card.show(event, g.dataset.rule, [["", g.dataset.reason]]);
  });
  rules.addEventListener("pointerleave", () => card.hide());
  const walk = (by) => () => {
    const all = files(), at = all.findIndex((g) => g.dataset.name === chosen());
    const to = all[Math.min(Math.max(at + by, 0), all.length - 1)];
    if (to) pick(to.dataset.name);
  };
  const climb = (by) => () => {
    const all = files(), now = all.find((g) => g.dataset.name === chosen()) || all[0];
    if (!now) return;
    const lanes = [...new Set(all.map((g) => g.dataset.lane))], to = lanes[lanes.indexOf(now.dataset.lane) + by];
    const centre = (g) => { const b = g.querySelector(".box").getBBox(); return b.x + b.width / 2; };
    const near = all.filter((g) => g.dataset.lane === to).sort((a, b) => Math.abs(centre(a) - centre(now)) - Math.abs(centre(b) - centre(now)))[0];
    if (near) pick(near.dataset.name);
  };
  lwKeys(glance, { ArrowLeft: () => stop(turn - 1, true), ArrowRight: () => stop(turn + 1, true), Home: () => stop(0, true), End: () => stop(1e6, true) });
  lwKeys(host, { ArrowLeft: walk(-1), ArrowRight: walk(1), ArrowUp: climb(-1), ArrowDown: climb(1), Home: walk(-1e6), End: walk(1e6) });
  box.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(send, 450); });
  box.addEventListener("keydown", (event) => {
    event.stopPropagation();
    if (event.key === "Enter") send();
    if (event.key === "Escape") { clearTimeout(timer); box.value = model.get("where"); host.focus(); }
  });
  stage.on("change:frame", draw);
  stage.on("change:selected", ring);
  stage.on("change:where", () => { if (document.activeElement !== box) box.value = model.get("where"); });
  box.value = model.get("where");
  draw();
  return () => { clearTimeout(timer); stage.off(); };
}
