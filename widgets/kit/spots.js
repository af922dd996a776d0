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
