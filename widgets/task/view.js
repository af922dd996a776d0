// Tasks: a question answered by clicking, dragging and keys; a veil over what would give it away; the score.
function renderTask(props) {
  const part = { task: taskView, veil: taskVeil, list: taskList }[props.model.get("part")];
  return part(props);
}
const TASK_SIGNS = { open: "○", again: "↻", right: "✓", wrong: "✗", seen: "–" };
const TASK_STYLES = { code: "code", bold: "strong", italic: "em" };
const taskLine = (segments) => (segments || []).map(([style, text]) => (TASK_STYLES[style] ? lwEl(TASK_STYLES[style], {}, text) : text));
const taskText = (blocks) => (blocks || []).map((block) => lwEl("p", {}, ...taskLine(block)));

function taskView({ model, el }) {
  const stage = lwStage(model, el, "task");
  const state = lwEl("span", { class: "lw-chip lw-task-state" });
  const ask = lwEl("div", { class: "lw-task-ask" }), host = lwEl("div", { class: "lw-pic", role: "group" });
  const list = lwEl("div", { class: "lw-task-options" }), result = lwEl("div", { class: "lw-task-result", role: "status" });
  const go = lwButton("", "compare with the engine's answer", commit, { text: "Ask the engine", primary: true });
  const again = lwButton("", "take the answer back and start over", () => lwSet(model, { committed: false }), { text: "Start over" });
  const so = lwEl("span", { class: "lw-sub", "aria-live": "polite" });
  stage.tools.append(state);
  stage.body.append(ask, list, host, result);
  stage.foot.append(go, again, so);
  let asked = "", cursor = "", drag = null;
  const frame = () => model.get("frame"), kind = () => frame().kind, open = () => !model.get("committed");
  const value = () => model.get("value"), many = () => (Array.isArray(value()) ? value() : []);
  const spots = () => [...host.querySelectorAll(".spot")];

  function commit() { if (!go.disabled && open()) lwSet(model, { asked: (model.get("asked") || 0) + 1 }); }
  function set(next, say) {
    if (!open()) return;
    lwSet(model, { value: next });
    show();
    if (say) stage.say(say);
  }
  const without = (id) => many().filter((each) => each !== id);
  function ready() {
    const chosen = many();
    if (kind() === "each") {
      const group = new Map(frame().spots.map(([id, , name]) => [id, name]));
      return new Set(chosen.map((id) => group.get(id))).size >= new Set(group.values()).size;
    }
    if (["many", "spots"].includes(kind())) return chosen.length > 0 || value() !== null;
    return value() !== null && value() !== "" && value() !== undefined;
  }
  // What is said of the engine's answer; nothing while a try is left.
  const judged = () => { const verdict = frame().verdict || {}; return verdict.state === "again" ? {} : verdict; };
  const lock = (node, on) => { if (on) node.setAttribute("aria-disabled", "true"); else node.removeAttribute("aria-disabled"); };

  // Options: buttons for one or several, rows to move for an order, a field where nothing can be clicked.
  function options() {
    const verdict = judged(), own = verdict.state ? [].concat(verdict.own) : [];
    if (kind() === "field") return field();
    if (kind() === "order") return order(own);
    const focus = list.contains(document.activeElement) && document.activeElement.dataset.id;
    list.setAttribute("role", "group");
    list.setAttribute("aria-label", frame().subtitle);
    list.classList.toggle("lw-task-short", (frame().options || []).every(([, , words]) => !words.length));
    list.replaceChildren(...(frame().options || []).map(([id, name, words]) => {
      const on = kind() === "many" ? many().includes(id) : value() === id;
      const mark = verdict.state && (own.includes(id) ? "✓" : on ? "✗" : "");
      const button = lwEl("button", { type: "button", "data-id": id, "aria-pressed": String(on), class: mark === "✓" ? "lw-right" : mark ? "lw-wrong" : "",
        onclick: () => set(kind() !== "many" ? id : on ? without(id) : [...many(), id]) },
        lwEl("b", {}, ...taskLine(name)), lwEl("span", {}, ...taskLine(words)), mark ? lwEl("i", { "aria-label": mark === "✓" ? "the engine's answer" : "not it" }, mark) : "");
      lock(button, !open());
      return button;
    }));
    if (focus) [...list.children].find((b) => b.dataset.id === focus)?.focus();
  }
  function field() {
    if (!list.firstChild) list.append(lwEl("input", { type: "text", placeholder: frame().form, "aria-label": "your answer", oninput: (event) => set(event.target.value) }));
    const box = list.firstChild;
    box.disabled = !open();
    if (document.activeElement !== box) box.value = value() ?? "";
  }
  function ordered() {
    const all = frame().options.map(([id]) => id), mine = many();
    return mine.length === all.length ? mine : all;
  }
  function move(id, by) {
    const ids = ordered(), at = ids.indexOf(id), to = Math.min(Math.max(at + by, 0), ids.length - 1);
    const next = ids.filter((each) => each !== id);
    next.splice(to, 0, id);
    set(next, `${id}: place ${to + 1} of ${ids.length}`);
    list.querySelector(`[data-id="${CSS.escape(id)}"]`)?.focus();
  }
  function order(own) {
    const words = new Map(frame().options.map(([id, name, more]) => [id, [name, more]])), ids = ordered();
    list.setAttribute("role", "list");
    list.replaceChildren(...ids.map((id, at) => {
      const [name, more] = words.get(id), mark = own.length ? (own[at] === id ? "✓" : "✗") : "";
      const row = lwEl("div", { class: "lw-task-row" + (mark === "✓" ? " lw-right" : mark ? " lw-wrong" : ""), role: "listitem", "data-id": id, tabindex: open() ? 0 : null,
        "aria-label": `place ${at + 1}: ${id}` + (open() ? "; arrow keys move it" : "") },
        lwEl("span", { class: "lw-task-place" }, String(at + 1)), lwEl("b", {}, ...taskLine(name)), lwEl("span", {}, ...taskLine(more)), lwEl("span", { class: "lw-gap" }));
      if (mark) row.append(lwEl("i", {}, mark));
      else row.append(lwButton("", `move ${id} up`, () => move(id, -1), { text: "↑" }), lwButton("", `move ${id} down`, () => move(id, 1), { text: "↓" }));
      if (!mark) {
        lwKeys(row, { ArrowUp: () => move(id, -1), ArrowDown: () => move(id, 1), Home: () => move(id, -99), End: () => move(id, 99) });
        row.addEventListener("pointerdown", (event) => grab(row, event));
      }
      return row;
    }));
  }
  function grab(row, event) {
    if (event.button || event.target.closest("button")) return;
    event.preventDefault();
    row.focus({ preventScroll: true });
    const id = row.dataset.id, rows = [...list.children], tops = rows.map((r) => r.getBoundingClientRect());
    const from = rows.indexOf(row), start = event.clientY;
    let to = from;
    row.setPointerCapture(event.pointerId);
    row.classList.add("lw-dragged");
    const moved = (e) => {
      row.style.transform = `translateY(${e.clientY - start}px)`;
      const middle = tops[from].top + tops[from].height / 2 + e.clientY - start;
      to = tops.filter((box, i) => i !== from && box.top + box.height / 2 < middle).length;
      rows.forEach((other, i) => { if (other !== row) other.style.transform = i > from && i <= to ? `translateY(-${tops[from].height + 4}px)` : i < from && i >= to ? `translateY(${tops[from].height + 4}px)` : ""; });
    };
    const done = () => {
      row.removeEventListener("pointermove", moved);
      row.classList.remove("lw-dragged");
      rows.forEach((r) => { r.style.transform = ""; });
      if (to !== from) move(id, to - from);
    };
    row.addEventListener("pointermove", moved);
    row.addEventListener("pointerup", done, { once: true });
    row.addEventListener("pointercancel", done, { once: true });
  }

  // Spots of a picture: each a checkbox (of a group one, as radio buttons); arrows go to the nearest one that way.
  function toggle(spot) {
    const id = spot.dataset.spot, group = spot.dataset.group, on = many().includes(id);
    const of = new Map(frame().spots.map(([each, , name]) => [each, name]));
    const left = kind() === "each" ? many().filter((each) => of.get(each) !== group) : without(id);
    cursor = id;
    set(on && kind() !== "each" ? left : [...left, id], `${spot.getAttribute("aria-label")}: ${on && kind() !== "each" ? "not chosen" : "chosen"}`);
  }
  function rings() {
    for (const spot of spots()) {
      const on = many().includes(spot.dataset.spot);
      spot.setAttribute("tabindex", (cursor ? spot.dataset.spot === cursor : spot === spots()[0]) ? "0" : "-1");
      if (!open()) continue;
      spot.setAttribute("aria-checked", String(on));
      spot.querySelector(".pick")?.remove();
      if (!on) continue;
      const [x, y, wide, tall] = spot.dataset.box.split(" ").map(Number);
      spot.append(lwMark("rect", { class: "pick ring", x: x - 3, y: y - 3, width: wide + 6, height: tall + 6, rx: 5, fill: "none", stroke: "var(--lw-ink)", "stroke-width": 2 }));
    }
  }
  // A page without a kernel holds the engine's answer alone: what was chosen is judged here.
  function judgeHere() {
    const badge = (x, y, token, sign) => [
      lwMark("circle", { cx: x, cy: y, r: 8, fill: `var(--lw-${token})`, stroke: "var(--lw-bg)", "stroke-width": 2 }),
      Object.assign(lwMark("text", { x, y: y + 4, "font-size": 11, "font-weight": 600, fill: "var(--lw-bg)", "text-anchor": "middle" }), { textContent: sign })];
    for (const spot of spots()) {
      const picked = many().includes(spot.dataset.spot), engines = spot.querySelector(".pick");
      spot.setAttribute("aria-checked", String(picked));
      if (!picked) continue;
      if (engines) { engines.removeAttribute("stroke-dasharray"); continue; }
      const [x, y, wide, tall] = spot.dataset.box.split(" ").map(Number);
      spot.append(lwMark("rect", { class: "pick", x: x - 3, y: y - 3, width: wide + 6, height: tall + 6, rx: 5, fill: "none", stroke: "var(--lw-err)", "stroke-width": 2 }), ...badge(x + wide + 3, y - 3, "err", "✗"));
      spot.setAttribute("aria-label", spot.getAttribute("aria-label") + ", not it");
    }
    const svg = host.querySelector("svg");
    if (!scale() || value() == null || !svg || svg.querySelector(".guess")) return;
    const [left, right, low, high, , y] = scale(), x = left + ((value() - low) / (high - low)) * (right - left);
    svg.append(lwMark("path", { class: "guess", d: `M${x} ${y + 3}l7 12h-14z`, fill: "var(--lw-err)" }), ...badge(x, y + 24, "err", "✗"));
  }
  const toward = (dx, dy) => () => {
    const middle = (spot) => { const [x, y, wide, tall] = spot.dataset.box.split(" ").map(Number); return [x + wide / 2, y + tall / 2]; };
    const here = spots().find((spot) => spot === document.activeElement) || spots()[0];
    if (!here) return;
    const [x, y] = middle(here);
    const way = (spot) => { const [a, b] = middle(spot); return [(a - x) * dx + (b - y) * dy, Math.abs((a - x) * dy) + Math.abs((b - y) * dx)]; };
    const to = spots().filter((spot) => spot !== here && way(spot)[0] > 1).sort((a, b) => way(a)[0] + 3 * way(a)[1] - way(b)[0] - 3 * way(b)[1])[0];
    if (to) { cursor = to.dataset.spot; rings(); to.focus({ preventScroll: true }); }
  };
  const press = () => { const spot = document.activeElement.closest && document.activeElement.closest(".spot"); if (spot && open()) toggle(spot); };

  // A ruler: click or drag to a place, arrows go step by step.
  const scale = () => (frame().meta || {}).ruler;
  function put(number) {
    const [, , low, high, step] = scale(), at = Math.min(Math.max(Math.round((number - low) / step), 0), Math.round((high - low) / step));
    const next = Number((low + at * step).toPrecision(12));
    set(next);
    host.setAttribute("aria-valuenow", next);
    host.setAttribute("aria-valuetext", said(next));
  }
  const said = (number) => (number.toLocaleString("en-US", { maximumSignificantDigits: 12 }) + " " + (frame().meta.unit || "")).trim().replace("-", "−");
  function point(event) {
    const svg = host.querySelector("svg");
    if (!scale() || !open() || !svg) return;
    const [x] = lwPoint(svg, event), [left, right, low, high] = scale();
    put(low + ((x - left) / (right - left)) * (high - low));
  }
  const by = (steps) => (event) => { if (scale() && open()) put((value() ?? scale()[2]) + steps * scale()[4] * (event.shiftKey ? 10 : 1)); };
  function guess() {
    const svg = host.querySelector("svg");
    if (!scale() || !svg || !open()) return;
    svg.querySelectorAll(".guess").forEach((mark) => mark.remove());
    if (value() == null) return;
    const [left, right, low, high, , y] = scale(), x = left + ((value() - low) / (high - low)) * (right - left);
    svg.append(lwMark("path", { class: "guess", d: `M${x} ${y + 3}l7 12h-14z`, fill: "var(--lw-ink)" }));
  }

  function show() {
    const spot = many().length, total = (frame().spots || []).length;
    options(); rings(); guess();
    go.disabled = !ready();
    so.textContent = !open() ? "" : kind() === "line" ? (value() == null ? "Click the ruler, or use the arrow keys." : said(value()))
      : total ? `${spot} of ${kind() === "each" ? new Set(frame().spots.map((s) => s[2])).size : total} chosen` + (spot ? "" : " · click in the picture") : kind() === "order" && value() == null ? "Drag the rows, or use their arrows." : "";
  }
  function draw() {
    const f = frame(), verdict = f.verdict || {}, given = Boolean(verdict.state), over = given && verdict.state !== "again";
    stage.words(f);
    const text = JSON.stringify(f.asked);
    if (text !== asked) { ask.replaceChildren(...taskText(f.asked)); lwTerms(ask, { focus: true }); list.replaceChildren(); asked = text; }
    const held = host.contains(document.activeElement) && document.activeElement.closest(".spot")?.dataset.spot;
    host.hidden = !f.svg;
    if (f.svg) stage.picture(host, f.svg);
    if (over && model.get("static")) judgeHere();
    for (const [name, to] of Object.entries(scale() ? { role: "slider", tabindex: 0, "aria-valuemin": scale()[2], "aria-valuemax": scale()[3], "aria-valuenow": value() ?? scale()[2], "aria-valuetext": value() == null ? "nothing chosen" : said(value()) } : { role: "group" })) host.setAttribute(name, to);
    host.setAttribute("aria-label", f.label || "");
    state.textContent = `${TASK_SIGNS[verdict.state || "open"]} ${verdict.state === "again" ? "one more try" : verdict.state || "open"}`;
    stage.root.dataset.state = verdict.state || "open";
    stage.root.dataset.kind = f.kind;
    const still = model.get("static") && f.kind === "field";
    go.hidden = over || still; again.hidden = !over;
    go.lastChild.textContent = given && !over ? "Ask again" : "Ask the engine";
    lwName(go, go.textContent, "compare with the engine's answer");
    result.hidden = !given;
    result.replaceChildren(...(given ? [lwEl("div", { class: "lw-task-pair" },
      lwEl("div", {}, lwEl("span", {}, "your answer"), lwEl("b", {}, TASK_SIGNS[verdict.state] + " ", ...taskLine(verdict.yours))),
      over ? lwEl("div", {}, lwEl("span", {}, "the engine's"), lwEl("b", {}, ...taskLine(verdict.engine))) : ""),
      ...taskText(verdict.remark), ...taskText(verdict.reason)] : []));
    if (given) lwTerms(result, { focus: true });
    show();
    if (held) spots().find((spot) => spot.dataset.spot === held)?.focus({ preventScroll: true });
  }
  host.addEventListener("click", (event) => {
    const spot = event.target.closest(".spot");
    if (spot && open()) { toggle(spot); spot.focus({ preventScroll: true }); }
  });
  host.addEventListener("pointerdown", (event) => {
    if (event.button || !scale()) return;
    host.focus({ preventScroll: true });
    host.setPointerCapture(event.pointerId);
    drag = event.pointerId;
    point(event);
    event.preventDefault();
  });
  host.addEventListener("pointermove", (event) => { if (drag === event.pointerId) point(event); });
  host.addEventListener("pointerup", () => { drag = null; });
  const either = (steps, way) => (event) => (scale() ? by(steps)(event) : way());
  lwKeys(host, {
    ArrowLeft: either(-1, toward(-1, 0)), ArrowRight: either(1, toward(1, 0)), ArrowUp: either(1, toward(0, -1)), ArrowDown: either(-1, toward(0, 1)),
    PageUp: by(10), PageDown: by(-10), Home: () => scale() && put(scale()[2]), End: () => scale() && put(scale()[3]), " ": press, Enter: press,
  });
  stage.on("change:frame", draw);
  stage.on("change:value", show);
  draw();
  return () => stage.off();
}

function taskVeil({ model, el, host, signal }) {
  const stage = lwStage(model, el, "veil"), note = lwEl("div", { class: "lw-task-ask" }), text = lwEl("pre", { class: "lw-task-lines", tabindex: 0 });
  const inside = lwEl("div", { class: "lw-task-inside" }), closed = lwEl("div", { class: "lw-task-closed" });
  const over = new AbortController();
  if (signal) signal.addEventListener("abort", () => over.abort());
  let mounted = false;
  stage.head.hidden = true;
  stage.body.append(closed, note, text, inside);
  async function mount() {
    const child = model.get("child");
    if (mounted || !child || model.get("static")) return;
    mounted = true;
    const view = await host.getWidget(child);
    if (!over.signal.aborted) await view.render({ el: inside, signal: over.signal });
  }
  function draw() {
    const f = model.get("frame"), opened = Boolean(f.opened);
    stage.root.dataset.open = String(opened);
    closed.hidden = opened; note.hidden = !(opened && (f.note || []).length); text.hidden = !(opened && (f.lines || []).length); inside.hidden = !opened;
    closed.replaceChildren(lwEl("span", { "aria-hidden": "true" }, "▒▒▒"), lwEl("span", {}, `What the engine did is veiled until ${f.waits} is answered.`), lwEl("span", { class: "lw-gap" }),
      lwButton("", "show it without an answer", () => lwSet(model, { committed: true }), { text: "Show anyway" }));
    note.replaceChildren(...taskText(f.note));
    lwTerms(note, { focus: true });
    text.textContent = (f.lines || []).join("\n");
    if (f.svg) stage.picture(inside, f.svg);
    if (opened) mount();
  }
  stage.on("change:frame", draw);
  draw();
  return () => { over.abort(); stage.off(); };
}

function taskList({ model, el }) {
  const stage = lwStage(model, el, "score"), chips = lwEl("div", { class: "lw-task-chips", role: "list" });
  const kept = lwEl("span", { class: "lw-sub" }), sure = lwButton("", "forget all answers of this notebook", clear, { text: "Clear my answers" });
  let armed = 0;
  stage.body.append(chips);
  stage.foot.append(kept, lwEl("span", { class: "lw-gap" }), sure);
  function clear() {
    clearTimeout(armed);
    if (!armed) {
      sure.lastChild.textContent = "Clear them? Press again";
      armed = setTimeout(() => { armed = 0; sure.lastChild.textContent = "Clear my answers"; }, 5000);
      return;
    }
    armed = 0;
    sure.lastChild.textContent = "Clear my answers";
    model.send({ verb: "clear" });
  }
  function draw() {
    const f = model.get("frame");
    stage.words(f);
    chips.replaceChildren(...(f.tasks || []).map(([name, state]) => lwEl("span", { class: "lw-chip", role: "listitem", "data-state": state, "aria-label": `${name}: ${state}` }, `${TASK_SIGNS[state]} ${name}`)));
    kept.textContent = f.kept ? `kept in ${f.kept}` : "";
    sure.hidden = !f.clears || model.get("static");
    stage.root.dataset.n = String((f.tasks || []).length);
    stage.say(f.label || "");
  }
  stage.on("change:frame", draw);
  draw();
  return () => { clearTimeout(armed); stage.off(); };
}
