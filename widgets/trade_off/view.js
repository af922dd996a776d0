// TradeOff: strategy, trigger and ratio choose a spot of the map; its costs in words and its tree stand below.
// Map, what is drawn over it and the tree come from Python: `frame`, `now`; `index` is the chosen setting.
function renderTradeOff({ model, el }) {
  const stage = lwStage(model, el, "trade_off");
  const pick = lwSegments("strategy", [["universal", "universal"], ["leveled", "leveled"]], (v) => choose({ strategy: v }));
  const slider = (name) => {
    const input = lwSlider(name, (at) => choose({ [name]: at }));
    const value = lwEl("span", { class: "lw-value" });
    return { input, value, node: lwEl("label", {}, name, input, value) };
  };
  const trigger = slider("trigger"), ratio = slider("ratio");
  const bar = lwEl("i", {}), meter = lwEl("span", { class: "lw-meter", role: "progressbar", "aria-label": "simulations", "aria-valuemin": 0, "aria-valuemax": 100 }, bar);
  const note = lwEl("span", { class: "lw-hint" });
  const cancel = lwButton("", "stop simulating", () => model.send({ verb: "cancel" }), { text: "Cancel" });
  const again = lwButton("", "simulate the settings", () => model.send({ verb: "refresh" }), { text: "Simulate" });
  const kinds = model.get("workloads") || [];
  const workload = lwSegments("workload", kinds.map((kind) => [kind, kind]), (kind) => lwSet(model, { workload: kind }));
  const fields = lwEl("div", { class: "lw-fields", role: "group", "aria-label": "setting" }, workload, pick, trigger.node, ratio.node, cancel, again, meter, note);
  const says = lwEl("b", {}), against = lwEl("span", {}), standing = lwEl("span", { class: "lw-hint" });
  const words = lwEl("div", { class: "lw-costs" }, says, against, standing);
  const host = lwEl("div", { class: "lw-pic", tabindex: 0, role: "application", "aria-roledescription": "map" });
  const opened = lwEl("div", { class: "lw-opened" }), tree = lwEl("div", { class: "lw-pic" });
  stage.body.append(fields, words, host, opened, tree);
  const card = lwCard(stage);
  let svg = null;
  const meta = () => model.get("frame").meta || {}, spots = () => meta().spots || [];

  // The order of settings: strategy, then ratio, then trigger.
  function place() {
    const axes = meta().axes;
    if (!axes) return null;
    let rest = model.get("index");
    for (const strategy of axes.strategies) {
      const many = axes.ratios[strategy].length * axes.triggers.length;
      if (rest < many) return { strategy, ratio: Math.floor(rest / axes.triggers.length), trigger: rest % axes.triggers.length };
      rest -= many;
    }
    return null;
  }
  function choose(change) {
    const axes = meta().axes, at = place();
    if (!axes || !at) return;
    const to = { ...at, ...change };
    const within = (v, list) => Math.min(Math.max(v, 0), list.length - 1);
    let index = 0;
    for (const strategy of axes.strategies) {
      const ratios = axes.ratios[strategy];
      if (strategy === to.strategy) index += within(to.ratio, ratios) * axes.triggers.length + within(to.trigger, axes.triggers);
      if (strategy === to.strategy) break;
      index += ratios.length * axes.triggers.length;
    }
    if (index !== model.get("index")) lwSet(model, { index });
    controls();
  }
  function controls() {
    const axes = meta().axes, at = place(), busy = model.get("progress") || {};
    workload.show(model.get("workload"));
    for (const b of workload.children) {
      b.disabled = !!model.get("static") && !(model.get("known") || []).includes(b.dataset.value);
      b.title = b.disabled ? `${b.dataset.value} was not simulated before this page was written` : `${b.dataset.value} keys (W: the next)`;
    }
    for (const node of [pick, trigger.node, ratio.node, words, opened, tree]) node.hidden = !axes;
    cancel.hidden = !busy.busy || !!model.get("at_once"); // a page without a kernel hears nothing while it simulates
    meter.hidden = !busy.busy;
    again.hidden = !busy.again || !!model.get("static");
    bar.style.width = 100 * (busy.share || 0) + "%";
    meter.setAttribute("aria-valuenow", Math.round(100 * (busy.share || 0)));
    note.textContent = busy.text || "keys ← → trigger, ↑ ↓ ratio, S, W";
    note.title = busy.text ? "" : "keys of the map: ← → trigger, ↑ ↓ ratio, S strategy, W workload; or click a spot";
    if (!axes || !at) return;
    pick.show(at.strategy);
    trigger.input.max = axes.triggers.length - 1;
    ratio.input.max = axes.ratios[at.strategy].length - 1;
    trigger.input.value = at.trigger;
    ratio.input.value = at.ratio;
    trigger.value.textContent = axes.triggers[at.trigger];
    ratio.value.textContent = axes.ratios[at.strategy][at.ratio];
    trigger.input.setAttribute("aria-valuetext", (at.strategy === "leveled" ? "files of level 0 ≥ " : "sorted runs ≥ ") + axes.triggers[at.trigger]);
    ratio.input.setAttribute("aria-valuetext", axes.ratios[at.strategy][at.ratio]);
  }
  function show() {
    const now = model.get("now") || {};
    stage.words({ ...model.get("frame"), ...(now.code ? { code: now.code } : {}) });
    says.textContent = now.says || ""; against.textContent = now.against || ""; standing.textContent = now.standing || "";
    opened.textContent = now.opened || "";
    if (now.levels) stage.picture(tree, now.levels);
    if (svg) {
      svg.querySelectorAll(".chosen").forEach((g) => g.remove());
      const g = lwMark("g", { class: "chosen" });
      g.innerHTML = now.over || "";
      svg.append(g);
    }
    host.setAttribute("aria-label", "trade-off map. " + (now.says || ""));
    if (now.says) stage.say(`${now.says}. ${now.against}`);
    controls();
  }
  function draw() {
    const f = model.get("frame");
    svg = f.svg ? stage.picture(host, f.svg) : null;
    stage.root.dataset.n = String(spots().length);
    show();
  }
  function nearest(event) {
    if (!svg || !spots().length) return null;
    const [x, y] = lwPoint(svg, event);
    let best = null, least = 18;
    spots().forEach((s, i) => {
      for (const at of [0, 2]) {
        const far = Math.hypot(s[at] - x, s[at + 1] - y);
        if (far < least) { least = far; best = i; }
      }
    });
    return best;
  }
  host.addEventListener("pointermove", (event) => {
    const at = nearest(event);
    host.style.cursor = at == null ? "" : "pointer";
    if (at == null) return card.hide();
    const [head, rows] = meta().peeks[at];
    card.show(event, head, rows);
  });
  host.addEventListener("pointerleave", () => card.hide());
  host.addEventListener("click", (event) => {
    const at = nearest(event);
    if (at != null && at !== model.get("index")) lwSet(model, { index: at });
  });
  const by = (name, n) => () => { const at = place(); if (at) choose({ [name]: at[name] + n }); };
  const other = () => { const at = place(); if (at) choose({ strategy: at.strategy === "leveled" ? "universal" : "leveled" }); };
  const nextKind = () => {
    const open = [...workload.children].filter((b) => !b.disabled).map((b) => b.dataset.value);
    const to = open[(open.indexOf(model.get("workload")) + 1) % open.length];
    if (to && to !== model.get("workload")) lwSet(model, { workload: to });
  };
  lwKeys(host, { w: nextKind, W: nextKind, ArrowLeft: by("trigger", -1), ArrowRight: by("trigger", 1), ArrowDown: by("ratio", -1), ArrowUp: by("ratio", 1), s: other, S: other });
  stage.on("change:frame", draw);
  stage.on("change:now", show);
  stage.on("change:index", controls);
  stage.on("change:workload", controls);
  stage.on("change:progress", controls);
  draw();
  return () => stage.off();
}
