// SnapshotTimeline: scrub, step, play and jump. The cursor moves here at once; Python follows with `snapshot`.
function renderTimeline({ model, el }) {
  const stage = lwStage(model, el, "timeline");
  const host = lwEl("div", { class: "lw-pic", tabindex: 0, role: "slider", "aria-label": "snapshot", "aria-orientation": "horizontal" });
  const jump = lwEl("input", { type: "text", placeholder: "id, tag, time", "aria-label": "jump to snapshot id, tag or time", size: 12 });
  const play = lwButton("play", "play", () => toggle());
  const speed = lwButton("", "speed", () => { pace = pace === 4 ? 1 : pace * 2; showPlay(); }, { text: "×1" });
  stage.tools.append(lwButton("first", "first commit", () => go(0)), play, lwButton("last", "last commit", () => go(count() - 1)), speed, jump);
  const chip = lwEl("span", { class: "lw-chip lw-warn" }, "viewing the past", lwEl("span", { class: "lw-wide" }, ": linked views are read-only"));
  const latest = lwButton("", "go to the latest snapshot", () => go(count() - 1), { text: "Latest" });
  const hint = lwEl("span", { class: "lw-hint lw-wide" }, "← → step · Shift ×10 · Space play · / jump");
  stage.tools.prepend(hint);
  stage.foot.append(lwEl("span", { class: "lw-legend" }), lwEl("span", { class: "lw-gap" }), chip, latest);
  stage.body.append(host);
  let svg = null, timer = null, pace = 1;
  const frame = () => model.get("frame"), meta = () => frame().meta || { regions: [], says: [], spoken: [] };
  const count = () => meta().count || 0, index = () => model.get("index");

  function go(to) {
    const at = Math.min(Math.max(to, 0), count() - 1);
    if (at < 0 || at === index()) return;
    lwSet(model, { index: at });
  }
  function showPlay() {
    play.replaceChildren(lwIcon(timer ? "pause" : "play"));
    play.setAttribute("aria-label", timer ? "pause" : "play");
    speed.textContent = "×" + pace;
  }
  function toggle() {
    if (timer) { clearTimeout(timer); timer = null; return showPlay(); }
    if (index() >= count() - 1) go(0);
    const tick = () => {
      if (index() >= count() - 1) { timer = null; return showPlay(); }
      go(index() + 1);
      timer = setTimeout(tick, 500 / pace);
    };
    timer = setTimeout(tick, 500 / pace);
    showPlay();
  }
  function cursor() {
    const m = meta(), at = index(), old = svg && svg.querySelector(".cursor");
    if (old) old.remove();
    host.setAttribute("aria-valuemin", 0);
    host.setAttribute("aria-valuemax", Math.max(count() - 1, 0));
    host.setAttribute("aria-valuenow", at);
    const past = count() > 0 && at < count() - 1;
    chip.style.visibility = latest.style.visibility = past ? "visible" : "hidden";
    const strip = m.regions.find((r) => r.step);
    if (!svg || !strip || at < m.first || at >= m.last) return;
    const says = m.says[at - m.first], x = strip.x + (at - m.first + 0.5) * strip.step, y = m.lineY, w = svg.viewBox.baseVal.width;
    host.setAttribute("aria-valuetext", m.spoken[at - m.first]);
    const g = lwMark("g", { class: "cursor" }), ink = "var(--lw-ink)";
    g.append(
      lwMark("path", { d: `M${x} ${m.top + 20}V${y - 9}M${x} ${y + 9}V${m.bottom}`, stroke: ink, "stroke-width": 2 }),
      lwMark("circle", { cx: x, cy: y, r: 9, fill: "none", stroke: ink, "stroke-width": 2 }),
      lwMark("path", { d: `M${x - 5} ${m.bottom}h10v5l-5 5l-5 -5Z`, fill: ink }));
    const text = lwMark("text", { y: m.top + 15, "text-anchor": "middle", "font-size": 12, "font-weight": 600, fill: "var(--lw-bg)" });
    text.textContent = says;
    const box = lwMark("rect", { y: m.top, height: 22, rx: 4, fill: ink });
    g.append(box, text);
    svg.append(g);
    const wide = text.getComputedTextLength() + 20, left = Math.min(Math.max(x - wide / 2, 16), w - 16 - wide);
    box.setAttribute("x", left); box.setAttribute("width", wide); text.setAttribute("x", left + wide / 2);
    stage.say(says);
  }
  function draw() {
    const f = frame();
    stage.words(f);
    svg = f.svg ? stage.picture(host, f.svg) : null;
    stage.picture(stage.foot.querySelector(".lw-legend"), f.legend || "");
    stage.root.dataset.n = String(count());
    cursor();
  }
  function at(event) {
    const [x, y] = lwPoint(svg, event);
    for (const r of meta().regions) {
      if (y < r.y || y > r.y + r.h) continue;
      const i = r.step ? r.first + Math.floor((x - r.x) / r.step) : Math.floor(((x - r.x) / r.w) * r.n);
      const lo = r.step ? r.first : 0, hi = (r.step ? meta().last : r.n) - 1;
      return Math.min(Math.max(i, lo), hi);
    }
    return null;
  }
  let dragging = false;
  host.addEventListener("pointerdown", (event) => {
    const i = svg && at(event);
    if (i == null) return;
    host.focus(); dragging = true; host.setPointerCapture(event.pointerId); go(i); event.preventDefault();
  });
  host.addEventListener("pointermove", (event) => {
    const i = svg && at(event);
    if (i == null) return;
    if (dragging) go(i);
    else if (model.get("hovered") !== String(i)) lwSet(model, { hovered: String(i) });
  });
  host.addEventListener("pointerup", () => { dragging = false; });
  host.addEventListener("pointerleave", () => { if (model.get("hovered")) lwSet(model, { hovered: "" }); });
  const by = (n) => (event) => go(index() + n * (event.shiftKey ? 10 : 1));
  lwKeys(host, {
    ArrowLeft: by(-1), ArrowRight: by(1), Home: () => go(0), End: () => go(count() - 1), " ": toggle,
    PageUp: () => go(index() - 10), PageDown: () => go(index() + 10), "/": () => { jump.focus(); jump.select(); },
  });
  jump.addEventListener("keydown", (event) => {
    event.stopPropagation();
    if (event.key === "Enter") lwSet(model, { jump: jump.value });
    if (event.key === "Escape" || event.key === "Enter") host.focus();
  });
  stage.on("change:frame", draw);
  stage.on("change:index", cursor);
  draw(); showPlay();
  return () => { clearTimeout(timer); stage.off(); };
}
