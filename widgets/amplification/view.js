// AmplificationChart: one cursor through three charts. Python says the values of every snapshot and how high they
// stand (`series`); here those of the selected and of the hovered one are put in place, by pointer, keys or clock.
function renderAmplification({ model, el }) {
  const stage = lwStage(model, el, "amplification");
  const host = lwEl("div", { class: "lw-pic", tabindex: 0, role: "slider", "aria-label": "snapshot", "aria-orientation": "horizontal" });
  const hint = lwEl("span", { class: "lw-hint lw-note" });
  stage.sub.after(hint);
  stage.body.append(host);
  const card = lwCard(stage);
  let svg = null;
  const frame = () => model.get("frame"), charts = () => (frame().meta || {}).charts || [];
  const count = () => (frame().meta || {}).count || 0, series = () => model.get("series") || {};
  const moments = lwMoments(stage, model, () => cursor());
  const index = () => { const at = lwPlaceOf(series().ids, moments.ahead()); return at < 0 ? model.get("index") : at; };
  function pointAt(i) {
    const s = series(), id = lwIdAt(s.ids, i);
    if (id == null || !charts().length) return {};
    const values = s.values.map((v) => v[i]), head = `#${id} ${s.kinds[i]}`.trim();
    const spoken = `${head}, ${["write", "read", "space"].map((name, k) => `${name} ${values[k]}`).join(", ")}`.replaceAll("≈", "about").replaceAll("–", "not known");
    return { index: i, head, values, ys: s.heights.map((h) => h[i]), says: s.exact[s.says[i]] || "", spoken };
  }

  const placeOf = (chart, i) => chart.x + ((i + 0.5) * chart.w) / count();
  function marks(point, hover) {
    const group = lwMark("g", { class: hover ? "peek" : "cursor" }), ink = "var(--lw-ink)";
    charts().forEach((c, k) => {
      const x = placeOf(c, point.index), y = point.ys[k];
      group.append(lwMark("path", { d: `M${x} ${c.top - 4}V${c.bottom}`, stroke: ink, "stroke-width": hover ? 1 : 2 }));
      if (y != null) {
        group.append(lwMark("circle", { cx: x, cy: c.bottom - y * (c.bottom - c.top), r: hover ? 3 : 4.5, fill: ink, stroke: "var(--lw-bg)", "stroke-width": 1.5 }));
      }
      if (hover) return;
      const value = lwMark("text", { x: c.value, y: c.head, "text-anchor": "end", "font-size": 15, "font-weight": 600, fill: ink });
      value.textContent = point.values[k];
      group.append(value);
    });
    return group;
  }
  function cursor() {
    if (!svg) return;
    svg.querySelectorAll(".cursor").forEach((g) => g.remove());
    const now = pointAt(index());
    stage.root.dataset.snapshot = String(lwIdAt(series().ids, index()));
    stage.root.dataset.values = (now.values || []).join("|");
    hint.textContent = now.says || "";
    hint.title = now.says || "";
    lwChosen(host, index(), count(), now.spoken || "nothing written yet");
    if (now.index == null) return;
    svg.append(marks(now, false));
    stage.say(now.spoken);
  }
  function peek() {
    if (!svg) return;
    svg.querySelectorAll(".peek").forEach((g) => g.remove());
    const at = model.get("hovered") ? pointAt(Number(model.get("hovered"))) : {};
    if (at.index == null || !model.get("hovered") || !scrub.pointer) return card.hide();
    svg.append(marks(at, true));
    card.show(scrub.pointer, at.head, (frame().names || []).map((name, k) => [name, at.values[k]]));
  }
  function draw() {
    const f = frame();
    stage.words(f);
    svg = f.svg ? stage.picture(host, f.svg) : null;
    stage.root.dataset.n = String(count());
    cursor(); peek();
  }
  function at(event) {
    const [x, y] = lwPoint(svg, event);
    const hit = charts().find((c) => x >= c.x - 8 && x <= c.x + c.w + 8 && y >= c.top - 32 && y <= c.bottom + 20);
    if (!hit || !count()) return null;
    return Math.min(Math.max(Math.floor(((x - hit.x) / hit.w) * count()), 0), count() - 1);
  }
  function go(to) {
    const i = Math.min(Math.max(to, 0), count() - 1);
    if (i < 0 || i === index()) return;
    moments.tell(lwIdAt(series().ids, i));
    lwSet(model, { index: i });
  }
  const scrub = lwScrub(host, model, { at: (event) => svg && at(event), go, peek });
  const by = (n) => (event) => go(index() + n * (event.shiftKey ? 10 : 1));
  lwKeys(host, { ArrowLeft: by(-1), ArrowRight: by(1), Home: () => go(0), End: () => go(count() - 1), Escape: scrub.leave });
  stage.on("change:frame", draw);
  for (const name of ["index", "series"]) stage.on("change:" + name, cursor);
  stage.on("change:hovered", peek);
  draw();
  return () => stage.off();
}
