// SnapshotTimeline: scrub, step, play, jump, zoom. The cursor moves here at once; Python follows with `snapshot`.
const PACE = { step: 500, compact: 950 };
function renderTimeline({ model, el }) {
  const stage = lwStage(model, el, "timeline");
  const host = lwEl("div", { class: "lw-pic", tabindex: 0, role: "slider", "aria-label": "snapshot", "aria-orientation": "horizontal" });
  const jump = lwEl("input", { type: "text", placeholder: "id, tag, time", "aria-label": "jump to snapshot id, tag or time", size: 12 });
  const play = lwButton("play", "play", () => toggle());
  const speed = lwButton("", "speed", () => { pace = pace === 4 ? 1 : pace * 2; showPlay(); }, { text: "×1" });
  const all = lwButton("", "show all commits", () => lwSet(model, { range: [] }), { text: "Show all" });
  stage.tools.append(lwButton("first", "first commit", () => go(0)), play, lwButton("last", "last commit", () => go(count() - 1)), speed, jump);
  const chip = lwEl("span", { class: "lw-chip lw-warn" }, "viewing the past", lwEl("span", { class: "lw-wide" }, ": linked views are read-only"));
  const latest = lwButton("", "go to the latest snapshot", () => go(count() - 1), { text: "Latest" });
  const hint = lwEl("span", { class: "lw-hint" }), legend = lwEl("span", { class: "lw-legend" });
  stage.tools.prepend(chip, all, latest, hint);
  stage.sub.after(legend);
  stage.body.append(host);
  const card = lwCard(stage);
  let svg = null, timer = null, pace = 1, dragging = null;
  const frame = () => model.get("frame"), meta = () => frame().meta || { regions: [], says: [], spoken: [] };
  const count = () => meta().count || 0, index = () => { const at = lwPlaceOf(meta().ids, moments.ahead()); return at < 0 ? model.get("index") : at; };
  const live = () => !model.get("static");
  // Another view of this clock has gone to a moment: the cursor follows before the kernel says so.
  const moments = lwMoments(stage, model, () => cursor());

  function go(to) {
    const at = Math.min(Math.max(to, 0), count() - 1);
    if (at < 0 || at === index()) return;
    moments.tell(lwIdAt(meta().ids, at));
    lwSet(model, { index: at });
  }
  function showPlay() {
    play.replaceChildren(lwIcon(timer ? "pause" : "play"));
    play.setAttribute("aria-label", timer ? "pause" : "play");
    play.title = timer ? "pause" : "play";
    speed.textContent = "×" + pace;
    lwName(speed, "×" + pace, "speed");
  }
  function pause() {
    clearTimeout(timer);
    timer = null;
    showPlay();
  }
  function toggle() {
    if (timer) return pause();
    if (index() >= count() - 1) go(0);
    const wait = () => ((meta().kinds || "")[index() - meta().first] === "1" && pace === 1 ? PACE.compact : PACE.step / pace);
    const tick = () => {
      if (index() >= count() - 1) return pause();
      go(index() + 1);
      timer = setTimeout(tick, wait());
    };
    timer = setTimeout(tick, wait());
    showPlay();
  }
  // The words of a commit: those in view are at hand, in a denser one Python sends those of the chosen commit.
  const words = (at) => {
    const m = meta(), words = model.get("spoken") || ["", ""], i = at - m.first;
    return m.says[i] === undefined ? words : [m.says[i], m.spoken[i]];
  };
  function cursor() {
    const m = meta(), at = index(), old = svg && svg.querySelector(".cursor");
    if (old) old.remove();
    host.setAttribute("aria-valuemin", 0);
    host.setAttribute("aria-valuemax", Math.max(count() - 1, 0));
    host.setAttribute("aria-valuenow", at);
    const past = count() > 0 && at < count() - 1;
    chip.hidden = latest.hidden = !past;
    const strip = m.regions.find((r) => r.step), whole = m.regions.find((r) => r.n), ink = "var(--lw-ink)";
    if (!svg || !strip) return;
    const g = lwMark("g", { class: "cursor" });
    svg.append(g);
    if (whole) {
      const [top, bottom] = whole.cursor, x = whole.x + ((at + 0.5) * whole.w) / whole.n;
      g.append(lwMark("path", { d: `M${x} ${top}V${bottom}`, stroke: ink, "stroke-width": 2 }), lwMark("path", { d: `M${x - 5} ${top - 5}h10l-5 6Z`, fill: ink }));
    }
    if (at < m.first || at >= m.last) return;
    const [says, spoken] = words(at);
    const x = strip.x + (at - m.first + 0.5) * strip.step, y = m.lineY, w = svg.viewBox.baseVal.width;
    host.setAttribute("aria-valuetext", spoken);
    g.append(
      lwMark("path", { d: `M${x} ${m.top + 20}V${y - 9}M${x} ${y + 9}V${m.bottom}`, stroke: ink, "stroke-width": 2 }),
      lwMark("circle", { cx: x, cy: y, r: 9, fill: "none", stroke: ink, "stroke-width": 2 }),
      lwMark("path", { d: `M${x - 5} ${m.bottom}h10v5l-5 5l-5 -5Z`, fill: ink }));
    const text = lwMark("text", { y: m.top + 15, "text-anchor": "middle", "font-size": 12, "font-weight": 600, fill: "var(--lw-bg)" });
    text.textContent = says;
    const box = lwMark("rect", { y: m.top, height: 22, rx: 4, fill: ink });
    g.append(box, text);
    // A notebook lays out nothing of a cell that is out of sight: there the length is 0.
    const wide = (text.getComputedTextLength() || 7.7 * says.length) + 20, left = Math.min(Math.max(x - wide / 2, 16), w - 16 - wide);
    box.setAttribute("x", left); box.setAttribute("width", wide); text.setAttribute("x", left + wide / 2);
    stage.say(says);
  }
  function draw() {
    const f = frame();
    stage.words(f);
    svg = f.svg ? stage.picture(host, f.svg) : null;
    stage.picture(legend, f.legend || "");
    stage.root.dataset.n = String(count());
    all.hidden = !(model.get("range") || []).length;
    hint.textContent = "← → · Shift ×10 · Space" + (live() ? " · + −" : "") + " · /";
    hint.title = "← → step, Shift by ten, Home and End, Space plays" + (live() ? ", + and − zoom, 0 shows all, Shift and drag chooses a range" : "") + ", / jumps";
    cursor();
  }
  // The region under the pointer and the commit there.
  function hit(event) {
    const [x, y] = lwPoint(svg, event);
    for (const r of meta().regions) {
      if (y < r.y || y > r.y + r.h) continue;
      const i = r.step ? r.first + Math.floor((x - r.x) / r.step) : Math.floor(((x - r.x) / r.w) * r.n);
      const lo = r.step ? r.first : 0, hi = (r.step ? meta().last : r.n) - 1;
      return { r, y, at: Math.min(Math.max(i, lo), hi) };
    }
    return null;
  }
  const edge = (r, i) => (r.step ? r.x + (i - r.first) * r.step : r.x + (i / r.n) * r.w);
  function brush(at) {
    const { r, from } = dragging, ends = [Math.min(from, at), Math.max(from, at)];
    dragging.ends = ends;
    if (!dragging.mark) {
      dragging.mark = lwMark("rect", { class: "brush", y: r.y + 2, height: r.h - 8, fill: "var(--lw-ink)", "fill-opacity": 0.08, stroke: "var(--lw-ink)" });
      svg.append(dragging.mark);
    }
    dragging.mark.setAttribute("x", edge(r, ends[0]));
    dragging.mark.setAttribute("width", Math.max(edge(r, ends[1] + 1) - edge(r, ends[0]), 2));
  }
  host.addEventListener("pointerdown", (event) => {
    const spot = svg && !event.button && hit(event);
    if (!spot) return;
    const { r, at, y } = spot;
    const ranging = live() && (event.shiftKey || (r.axis !== undefined && y > r.axis));
    pause(); card.hide();
    dragging = { r, from: at, ranging };
    host.setPointerCapture(event.pointerId);
    if (!ranging) go(at);
  });
  host.addEventListener("pointermove", (event) => {
    const spot = svg && hit(event);
    if (!spot) return;
    if (dragging && dragging.ranging) return brush(spot.at);
    if (dragging) return go(spot.at);
    if (model.get("hovered") !== String(spot.at)) lwSet(model, { hovered: String(spot.at) });
    const says = meta().says[spot.at - meta().first];
    if (spot.r.step && says && spot.at !== index()) card.show(event, says.split(" · ")[0], says.split(" · ").slice(1).map((part) => [part, ""]));
    else card.hide();
  });
  host.addEventListener("pointerup", () => {
    const done = dragging;
    dragging = null;
    if (!done || !done.ranging) return;
    if (done.mark) done.mark.remove();
    if (done.ends && done.ends[1] > done.ends[0]) model.send({ verb: "range", first: done.ends[0], last: done.ends[1] });
  });
  host.addEventListener("pointerleave", () => { card.hide(); if (model.get("hovered")) lwSet(model, { hovered: "" }); });
  const by = (n) => (event) => go(index() + n * (event.shiftKey ? 10 : 1));
  const zoom = (closer) => () => { if (live()) model.send({ verb: "zoom", closer }); };
  lwKeys(host, {
    ArrowLeft: by(-1), ArrowRight: by(1), Home: () => go(0), End: () => go(count() - 1), " ": toggle,
    PageUp: () => go(index() - 10), PageDown: () => go(index() + 10), "/": () => { jump.focus(); jump.select(); },
    "+": zoom(true), "=": zoom(true), "-": zoom(false), "0": () => { if (live()) lwSet(model, { range: [] }); },
  });
  jump.addEventListener("keydown", (event) => {
    event.stopPropagation();
    if (event.key === "Enter") { lwSet(model, { jump: "" }); lwSet(model, { jump: jump.value }); }
    if (event.key === "Escape" || event.key === "Enter") host.focus();
  });
  stage.on("change:frame", draw);
  stage.on("change:index", cursor);
  stage.on("change:spoken", () => { if (meta().says[index() - meta().first] === undefined) cursor(); });
  draw(); showPlay();
  return () => { clearTimeout(timer); stage.off(); };
}
