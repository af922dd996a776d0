// Shared by every view: elements from text, the frame around a picture, keys, spots with a card, live region.
// A view's Python side sends `frame` (SVG text made there, all text from data escaped) and reacts to plain traits.
function lwEl(tag, attrs = {}, ...kids) {
  const node = document.createElement(tag);
  for (const [k, v] of Object.entries(attrs)) {
    if (k.startsWith("on")) node.addEventListener(k.slice(2), v);
    else if (v === true) node.setAttribute(k, "");
    else if (v !== false && v != null) node.setAttribute(k, v);
  }
  node.append(...kids);
  return node;
}
const LW_SVG = "http://www.w3.org/2000/svg";
function lwMark(tag, attrs) {
  const node = document.createElementNS(LW_SVG, tag);
  for (const [k, v] of Object.entries(attrs)) node.setAttribute(k, v);
  return node;
}
const LW_ICONS = {
  first: "M2 2h2v10h-2zM12 2v10l-7-5z", last: "M10 2h2v10h-2zM2 2v10l7-5z", play: "M3 2v10l9-5z",
  pause: "M3 2h3v10h-3zM8 2h3v10h-3z", stop: "M3 3h8v8h-8z", step: "M10 2h2v10h-2zM2 2v10l7-5z",
  code: "M5 3l-4 4l4 4M9 3l4 4l-4 4",
  fast: "M1 2v10l6-5zM7 2v10l6-5z", next: "M5 2l5 5l-5 5", prev: "M9 2l-5 5l5 5",
};
function lwIcon(name) {
  const svg = lwMark("svg", { viewBox: "0 0 14 14", width: 14, height: 14, "aria-hidden": "true" });
  const line = name === "next" || name === "prev" || name === "code";
  svg.append(lwMark("path", { d: LW_ICONS[name], fill: line ? "none" : "currentColor", stroke: line ? "currentColor" : "none", "stroke-width": 2 }));
  return svg;
}
// What a control is called: the words that it shows come first, so that one can say them to reach it.
function lwName(control, shown, label) {
  control.setAttribute("aria-label", label.toLowerCase().includes(shown.toLowerCase()) ? label : `${shown}: ${label}`);
}
function lwButton(icon, label, onclick, { text = "", primary = false } = {}) {
  const kids = [icon ? lwIcon(icon) : "", text ? lwEl("span", {}, text) : ""].filter(Boolean);
  const button = lwEl("button", { type: "button", class: primary ? "lw-primary" : "", title: label, onclick }, ...kids);
  lwName(button, text, label);
  return button;
}
// A bucket's place: where there is little room its partition is cut, never its number.
function lwPlace(node, text, mark) {
  const at = text.lastIndexOf(mark);
  node.classList.toggle("lw-place", at > 0);
  node.replaceChildren(...(at > 0 ? [lwEl("span", {}, text.slice(0, at)), lwEl("span", {}, text.slice(at))] : [text]));
  node.title = text;
  return node;
}
function lwSegments(label, choices, onpick) {
  const box = lwEl("span", { class: "lw-seg", role: "group", "aria-label": label });
  for (const [value, text] of choices) {
    box.append(lwEl("button", { type: "button", "data-value": value, onclick: () => onpick(value) }, text));
  }
  box.show = (value) => {
    for (const b of box.children) b.setAttribute("aria-pressed", String(b.dataset.value === value));
  };
  return box;
}
// A slider. Its keys are taken here: JupyterLab takes the arrows of an input before the input acts on them.
function lwSlider(label, onmove) {
  const input = lwEl("input", { type: "range", min: 0, step: 1, "aria-label": label, oninput: () => onmove(Number(input.value)) });
  input.addEventListener("keydown", (event) => {
    const [now, min, max] = ["value", "min", "max"].map((k) => Number(input[k])), page = Math.max(Math.round((max - min) / 10), 1);
    const to = { ArrowLeft: now - 1, ArrowDown: now - 1, ArrowRight: now + 1, ArrowUp: now + 1, PageDown: now - page,
      PageUp: now + page, Home: min, End: max }[event.key];
    if (to === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation();
    input.value = to;
    if (Number(input.value) !== now) onmove(Number(input.value));
  });
  return input;
}
function lwSet(model, values) {
  for (const [k, v] of Object.entries(values)) model.set(k, v);
  model.save_changes();
}
function lwStill() {
  return matchMedia("(prefers-reduced-motion: reduce)").matches;
}
// Gives a stage's hatches ids of its own: in a document the first of equal ids counts, even where it is hidden.
// The count is the page's, as each view comes with its own copy of this file. Data cannot match: its quotes are escaped.
function lwOwnIds() {
  const own = window.lwStages = (window.lwStages || 0) + 1;
  return (svg) => svg.replaceAll(/ (id="|fill="url\(#)(lw-[a-z]+)/g, ` $1$2-${own}`);
}
function lwStage(model, el, name) {
  const title = lwEl("h3", {}), sub = lwEl("span", { class: "lw-sub" }), tools = lwEl("span", { class: "lw-tools" });
  const head = lwEl("div", { class: "lw-head" }, title, sub, lwEl("span", { class: "lw-gap" }), tools);
  const error = lwEl("div", { class: "lw-error", role: "alert", hidden: true });
  const code = lwEl("pre", { class: "lw-code", hidden: true, tabindex: 0, "aria-label": "Python of this picture" });
  const showCode = lwButton("code", "the Python that gives this picture", () => {
    code.hidden = !code.hidden; showCode.setAttribute("aria-expanded", String(!code.hidden));
  });
  showCode.classList.add("lw-quiet");
  const body = lwEl("div", { class: "lw-body" }), foot = lwEl("div", { class: "lw-foot" });
  const says = lwEl("div", { class: "lw-says", role: "status", "aria-live": "polite" });
  const root = lwEl("div", { class: "lw lw-" + name, "data-lm-suppress-shortcuts": "true" }, head, code, error, body, foot, says);
  head.append(showCode);
  el.replaceChildren(root);
  const offs = [];
  const on = (event, fn) => { model.on(event, fn); offs.push(() => model.off(event, fn)); };
  const owned = lwOwnIds();
  let version = 0;
  const stage = {
    root, head, title, sub, tools, body, foot, error, on,
    atEnd: (fn) => offs.push(fn),
    say: (text) => { if (says.textContent !== text) says.textContent = text; },
    picture: (host, svg) => { host.innerHTML = owned(svg); lwRoles(host); lwPictureTerms(host); root.dataset.ver = String(++version); return host.querySelector("svg"); },
    words: (frame) => {
      title.textContent = frame.title || "";
      if (sub.textContent !== (frame.subtitle || "")) { sub.textContent = frame.subtitle || ""; lwTerms(sub); }
      sub.title = frame.subtitle || "";
      code.textContent = frame.code || model.get("code") || "";
      showCode.hidden = !code.textContent;
      if (showCode.hidden) code.hidden = true;
      const e = frame.error;
      error.hidden = !e;
      if (!e) return;
      const again = e.button && !model.get("static") ? lwButton("", e.button, () => model.send({ verb: e.verb }), { text: e.button }) : "";
      error.replaceChildren(lwEl("b", {}, "✕ " + e.what), lwEl("code", {}, e.text), lwEl("span", {}, e.next || ""), again);
    },
    off: () => { offs.forEach((f) => f()); watch.disconnect(); unwatch(); },
  };
  const watch = new ResizeObserver(() => {
    const room = Math.floor(root.clientWidth / 20) * 20;
    if (room >= 300 && room !== model.get("width") && !root.closest(".lw-lost")) lwSet(model, { width: Math.min(room, 1900) });
  });
  watch.observe(root);
  const unwatch = lwWatchKernel(model, root);
  return stage;
}
// Marks the words of the glossary in a node whose text is set: each once, its meaning in a card on hover (and on
// focus, where `focus` says so: a caption is no place for tab stops).
const LW_TERM = new RegExp("\\b(" + Object.keys(LW_TERMS).join("|") + ")\\b", "gi");
function lwTerms(node, { focus = false } = {}) {
  const seen = new Set(), walk = document.createTreeWalker(node, NodeFilter.SHOW_TEXT), texts = [];
  while (walk.nextNode()) if (!walk.currentNode.parentElement.closest("code, .lw-term")) texts.push(walk.currentNode);
  for (const text of texts) {
    const parts = text.data.split(LW_TERM);
    if (parts.length < 2) continue;
    text.replaceWith(...parts.map((part, i) => {
      const term = i % 2 && LW_TERMS[part.toLowerCase()];
      if (!term || seen.has(term[0])) return part;
      seen.add(term[0]);
      return lwTerm(part, term, focus);
    }));
  }
}
// The same in a picture: labels and legends that hold such a word, not values, which stand in boxes.
function lwPictureTerms(host) {
  const seen = new Set();
  for (const text of host.querySelectorAll("svg text")) {
    const words = text.textContent, [before, word, ...after] = words.length < 60 ? words.split(LW_TERM) : [];
    const term = word && LW_TERMS[word.toLowerCase()];
    if (!term || seen.has(term[0]) || text.childElementCount || text.closest(".file, .spot, [role=gridcell], [role=row]")) continue;
    seen.add(term[0]);
    const mark = lwMark("tspan", { class: "lw-term" }), { show, hide } = lwTermCard(mark, host, term);
    mark.textContent = word;
    mark.addEventListener("pointerenter", show);
    mark.addEventListener("pointerleave", hide);
    text.replaceChildren(before, mark, after.join(""));
  }
}
function lwTermCard(mark, place, [name, meaning]) {
  const card = lwEl("span", { class: "lw-term-card", role: "tooltip", popover: "manual" }, lwEl("b", {}, name), " ", meaning);
  const show = () => {
    const box = mark.getBoundingClientRect();
    if (!card.showPopover || card.matches(":popover-open")) return;
    place.append(card);
    card.showPopover();
    card.style.left = Math.max(4, Math.min(box.left, innerWidth - card.offsetWidth - 4)) + "px";
    card.style.top = (box.bottom + card.offsetHeight + 8 < innerHeight ? box.bottom + 6 : box.top - card.offsetHeight - 6) + "px";
  };
  const hide = () => { if (card.isConnected && card.hidePopover) { card.hidePopover(); card.remove(); } };
  return { show, hide };
}
function lwTerm(word, term, focus) {
  const mark = lwEl("span", { class: "lw-term", "aria-label": focus ? `${word}: ${term[1]}` : null, role: focus ? "note" : null, tabindex: focus ? 0 : null }, word);
  const { show, hide } = lwTermCard(mark, mark, term);
  for (const [event, act] of [["pointerenter", show], ["pointerleave", hide], ["focus", show], ["blur", hide]]) mark.addEventListener(event, act);
  return mark;
}
const lwTyping = (node) => node.isContentEditable || /^(SELECT|TEXTAREA)$/.test(node.tagName)
  || (node.tagName === "INPUT" && node.type !== "checkbox");
// A card beside the pointer: `show(event, heading, [[name, value], …])`, `hide()`. All text is set as text. It stands
// where it covers the least of what is selected.
function lwCard(stage) {
  const card = lwEl("div", { class: "lw-card", hidden: true });
  stage.body.append(card);
  return {
    hide: () => { card.hidden = true; },
    show: (event, heading, rows) => {
      const pair = ([k, v]) => lwEl("div", {}, lwEl("span", {}, k), lwEl("span", {}, v));
      card.replaceChildren(...(heading ? [lwEl("code", {}, heading)] : []), ...rows.map(pair));
      card.hidden = false;
      const box = stage.body.getBoundingClientRect(), wide = card.offsetWidth, tall = card.offsetHeight;
      const x = event.clientX - box.left, y = event.clientY - box.top;
      const kept = [...stage.body.querySelectorAll(".ring, .cursor > *")].map((node) => node.getBoundingClientRect());
      const covered = (left, top) => kept.reduce((sum, r) => sum
        + Math.max(0, Math.min(left + wide, r.right - box.left + 2) - Math.max(left, r.left - box.left - 2))
        * Math.max(0, Math.min(top + tall, r.bottom - box.top + 2) - Math.max(top, r.top - box.top - 2)), 0);
      const within = (v, room) => Math.max(4, Math.min(v, room - 4));
      let best = null;
      const beyond = kept.flatMap((r) => [r.top - box.top - tall - 6, r.bottom - box.top + 6]);
      for (const top of [y - tall - 12, y + 18, y - tall / 2, ...beyond]) {
        for (const left of top > y || top + tall < y ? [x + 14, x - wide - 14] : [x + 24, x - wide - 24]) {
          const at = [within(left, box.width - wide), top], far = Math.abs(top + tall / 2 - y);
          const cost = 9 * covered(...at) + far + (top < 0 ? 1e6 : 0) + (top + tall > box.height ? 1e5 : 0);
          if (!best || cost < best.cost) best = { at, cost };
        }
      }
      card.style.left = best.at[0] + "px";
      card.style.top = Math.max(best.at[1], 0) + "px";
    },
  };
}
// Travel by pointer: press and drag goes to what is under it; what it rests on becomes `hovered`, shown by `peek`.
function lwScrub(host, model, { at, go, peek }) {
  const scrub = { pointer: null, leave };
  let dragging = false;
  function leave() {
    scrub.pointer = null;
    if (model.get("hovered")) lwSet(model, { hovered: "" });
    peek();
  }
  host.addEventListener("pointerdown", (event) => {
    const i = at(event);
    if (i == null) return;
    host.focus({ preventScroll: true });
    dragging = true; host.setPointerCapture(event.pointerId); go(i); event.preventDefault();
  });
  host.addEventListener("pointermove", (event) => {
    const i = at(event);
    if (i == null) return leave();
    if (dragging) return go(i);
    scrub.pointer = event;
    if (model.get("hovered") !== String(i)) lwSet(model, { hovered: String(i) });
    else peek();
  });
  host.addEventListener("pointerup", () => { dragging = false; });
  host.addEventListener("pointerleave", leave);
  return scrub;
}
// Views of one `clock` go to a moment together, at once: a view that is moved tells the others here, and the kernel's
// traits follow. Until they have, what the kernel still says of moments passed by is not shown.
function lwMoments(stage, model, move) {
  let ahead = null, timer = 0;
  const settle = () => { clearTimeout(timer); ahead = null; };
  const hear = ({ detail }) => {
    if (!detail.clock || detail.clock !== model.get("clock") || detail.model === model) return;
    clearTimeout(timer);
    ahead = detail.snapshot;
    timer = setTimeout(() => { settle(); move(); }, 5000);
    if (model.get("snapshot") === ahead) settle();
    move();
  };
  window.addEventListener("lw-moment", hear);
  stage.atEnd(() => { settle(); window.removeEventListener("lw-moment", hear); });
  stage.on("change:snapshot", () => {
    if (ahead !== null && model.get("snapshot") !== ahead) return;
    settle(); move();
  });
  return {
    ahead: () => ahead,
    at: () => (ahead === null ? model.get("snapshot") : ahead),
    tell: (snapshot) => {
      const clock = model.get("clock");
      if (clock && snapshot != null) window.dispatchEvent(new CustomEvent("lw-moment", { detail: { clock, snapshot, model } }));
    },
  };
}
// Ids of snapshots from their runs [[position, id, how many], …].
const lwIdAt = (spans, i) => { const s = (spans || []).find(([at, , many]) => i >= at && i < at + many); return s ? s[1] + i - s[0] : null; };
const lwPlaceOf = (spans, id) => { const s = (spans || []).find(([, first, many]) => id >= first && id < first + many); return s && id != null ? s[0] + id - s[1] : -1; };
function lwKeys(node, table) {
  node.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || lwTyping(event.target)) return;
    const act = table[event.key];
    if (!act) return;
    event.preventDefault();
    event.stopPropagation();
    act(event);
  });
}
function lwPoint(svg, event) {
  const box = svg.getBoundingClientRect(), view = svg.viewBox.baseVal;
  return [((event.clientX - box.left) * view.width) / box.width, ((event.clientY - box.top) * view.height) / box.height];
}
// What a slider says of itself: which of `count` places is chosen, and in words which one that is.
function lwChosen(host, at, count, text) {
  const facts = { valuemin: 0, valuemax: Math.max(count - 1, 0), valuenow: Math.max(at, 0), valuetext: text };
  for (const [name, value] of Object.entries(facts)) host.setAttribute("aria-" + name, value);
}
// A ring around a place of a picture, as of all that points at something for a while.
function lwRing([x, y, w, h], { gap = 2, wide = 2 } = {}) {
  const box = { x: x - gap, y: y - gap, width: w + 2 * gap, height: h + 2 * gap, rx: 4 };
  return lwMark("rect", { class: "cursor ring", ...box, fill: "none", stroke: "var(--lw-ink)", "stroke-width": wide });
}
// Spots of a picture, [x, y, width, height, heading, [[name, value], …]]: the smallest one under the pointer has a ring
// and its card, else the one that keys have gone to. `label` is what the picture is a slider of; `over` hears of the
// spot under the pointer. `draw` takes a new picture.
function lwSpots(stage, host, spots, { label, wide = 2, over = () => {} }) {
  const card = lwCard(stage);
  let svg = null, pointer = null, at = -1;
  function under(event) {
    if (!svg) return -1;
    const [x, y] = lwPoint(svg, event), size = (i) => spots()[i][2] * spots()[i][3];
    return spots().reduce((best, [sx, sy, w, h], i) => {
      const inside = x >= sx - 1 && x <= sx + w + 1 && y >= sy - 1 && y <= sy + h + 1;
      return inside && (best < 0 || size(i) < size(best)) ? i : best;
    }, -1);
  }
  function show(i, place) {
    const [, , , , heading, facts] = spots()[i];
    svg.append(lwRing(spots()[i], { wide }));
    card.show(place, heading, facts);
  }
  function marks() {
    if (!svg) return;
    svg.querySelectorAll(".cursor").forEach((node) => node.remove());
    const i = pointer ? under(pointer) : -1;
    if (pointer) over(i);
    if (i >= 0) return show(i, pointer);
    if (!pointer && at >= 0 && at < spots().length && document.activeElement === host) {
      const [x, y, w, h] = spots()[at], box = svg.getBoundingClientRect(), scale = box.width / svg.viewBox.baseVal.width;
      return show(at, { clientX: box.left + (x + Math.min(w, 200)) * scale, clientY: box.top + (y + h) * scale });
    }
    card.hide();
  }
  function words() {
    const [, , , , heading, facts] = spots()[at] || [], text = facts ? `${heading}: ${facts.map((pair) => pair.join(" ")).join(", ")}` : "none chosen";
    lwChosen(host, at, spots().length, text);
    return text;
  }
  function draw(picture, title) {
    svg = picture;
    stage.root.dataset.n = String(spots().length);
    host.setAttribute("aria-label", `${label}; ${title}`);
    words();
    marks();
  }
  function go(to) {
    at = to == null ? -1 : Math.min(Math.max(to, 0), spots().length - 1);
    pointer = null;
    stage.say(words());
    marks();
  }
  const by = (step) => (event) => go(at < 0 ? (step > 0 ? 0 : spots().length - 1) : at + step * (event.shiftKey ? 10 : 1));
  const keys = {
    ArrowUp: by(-1), ArrowLeft: by(-1), ArrowDown: by(1), ArrowRight: by(1),
    Home: () => go(0), End: () => go(spots().length - 1), Escape: () => go(null),
  };
  host.addEventListener("pointermove", (event) => { pointer = event; marks(); });
  host.addEventListener("pointerleave", () => { pointer = null; marks(); });
  host.addEventListener("blur", marks);
  return { draw, under, keys, at: () => at };
}
