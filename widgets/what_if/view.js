// WhatIf: one index through two level pictures, two lanes and three charts; B's options as fields. Pictures and
// words come from Python: `frame` (lanes, charts, verdict), `now` (levels at the selected commit), `progress`.
function renderWhatIf({ model, el }) {
  const stage = lwStage(model, el, "what_if");
  const levels = lwEl("div", { class: "lw-levels2" });
  const host = lwEl("div", { class: "lw-pic", tabindex: 0, role: "slider", "aria-label": "commit", "aria-orientation": "horizontal" });
  const verdict = lwEl("b", {}), trust = lwEl("div", { class: "lw-hint" });
  const copy = lwButton("", "copy the options of B", () => copied(), { text: "Copy options of B" });
  const band = lwEl("div", { class: "lw-verdict" }, lwEl("div", {}, verdict, trust), copy);
  const play = lwButton("play", "play", () => toggle());
  const speed = lwButton("", "speed", () => { pace = pace === 4 ? 1 : pace * 2; showPlay(); }, { text: "×1" });
  const bucket = lwButton("next", "next bucket", () => nextBucket());
  const hint = lwEl("span", { class: "lw-hint lw-wide" }, "← → step · Shift ×10 · Space play");
  stage.tools.append(hint, lwButton("first", "first commit", () => go(0)), play, lwButton("last", "last commit", () => go(count() - 1)), speed, bucket);
  const fields = lwWhatIfFields(model);
  stage.body.append(levels, fields.node, host, band);
  const card = lwCard(stage);
  let svg = null, timer = null, pace = 1;
  const frame = () => model.get("frame"), charts = () => (frame().meta || {}).charts || [];
  const count = () => (frame().meta || {}).count || 0, index = () => model.get("index");

  function go(to) {
    const i = Math.min(Math.max(to, 0), count() - 1);
    if (i >= 0 && i !== index()) lwSet(model, { index: i });
  }
  function nextBucket() {
    const all = frame().places || [], at = all.indexOf(model.get("opened"));
    if (all.length > 1) lwSet(model, { opened: all[(at + 1) % all.length] });
  }
  function copied() {
    const words = frame().options || "", done = () => stage.say("copied: " + words);
    if (navigator.clipboard) navigator.clipboard.writeText(words).then(done, () => stage.say(words));
    copy.title = words;
  }
  function showPlay() {
    play.replaceChildren(lwIcon(timer ? "pause" : "play"));
    play.setAttribute("aria-label", timer ? "pause" : "play");
    speed.textContent = "×" + pace;
    lwName(speed, "×" + pace, "speed");
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
    if (!svg) return;
    svg.querySelectorAll(".cursor").forEach((g) => g.remove());
    const now = model.get("now") || {}, g = lwMark("g", { class: "cursor" }), ink = "var(--lw-ink)";
    lwChosen(host, index(), count(), now.says || "");
    if (!count() || index() < 0) return;
    for (const c of charts()) {
      const x = c.x + ((index() + 0.5) * c.w) / count();
      g.append(lwMark("path", { d: `M${x} ${c.top}V${c.bottom}`, stroke: ink, "stroke-width": 2 }));
      if (c.handle) g.append(lwMark("path", { d: `M${x - 5} ${c.bottom}h10v5l-5 5l-5 -5Z`, fill: ink }));
    }
    svg.append(g);
  }
  function peek() {
    if (!svg) return;
    svg.querySelectorAll(".peek").forEach((g) => g.remove());
    const at = model.get("peek") || {};
    if (at.index == null || !scrub.pointer || !count()) return card.hide();
    const g = lwMark("g", { class: "peek" });
    for (const c of charts()) {
      const x = c.x + ((at.index + 0.5) * c.w) / count();
      g.append(lwMark("path", { d: `M${x} ${c.top}V${c.bottom}`, stroke: "var(--lw-ink)", "stroke-width": 1 }));
    }
    svg.append(g);
    card.show(scrub.pointer, at.head, at.rows);
  }
  function show() {
    const now = model.get("now") || {};
    if (now.levels) stage.picture(levels, now.levels);
    levels.hidden = !now.levels;
    cursor();
    if (now.says) stage.say(now.says);
  }
  function draw() {
    const f = frame();
    stage.words(f);
    svg = f.svg ? stage.picture(host, f.svg) : null;
    stage.root.dataset.n = String(count());
    verdict.textContent = f.verdict || "";
    trust.replaceChildren(...(f.trust || []).map((line, i) => lwEl("span", {}, (i || f.reproduced == null ? "" : f.reproduced ? "✓ " : "▲ ") + line)));
    band.hidden = !f.verdict;
    bucket.hidden = (f.places || []).length < 2 || model.get("static");
    show();
  }
  function at(event) {
    const [x, y] = lwPoint(svg, event);
    const hit = charts().find((c) => x >= c.x - 10 && x <= c.x + c.w + 10 && y >= c.top - 28 && y <= c.bottom + 20);
    return hit && count() ? Math.min(Math.max(Math.floor(((x - hit.x) / hit.w) * count()), 0), count() - 1) : null;
  }
  const scrub = lwScrub(host, model, { at: (event) => svg && at(event), go, peek });
  const by = (n) => (event) => go(index() + n * (event.shiftKey ? 10 : 1));
  lwKeys(host, { ArrowLeft: by(-1), ArrowRight: by(1), Home: () => go(0), End: () => go(count() - 1), " ": toggle });
  stage.on("change:frame", draw);
  stage.on("change:now", show);
  stage.on("change:index", cursor);
  stage.on("change:peek", peek);
  stage.on("change:form", fields.draw);
  stage.on("change:progress", fields.draw);
  draw(); showPlay(); fields.draw();
  return () => { clearTimeout(timer); stage.off(); };
}
