// The row that changes B: strategy and its three numbers, Replay, Cancel, and how far a replay has come.
function lwWhatIfFields(model) {
  let strategy = "universal";
  const pick = lwSegments("strategy of B", [["universal", "universal"], ["leveled", "leveled"]], (v) => { strategy = v; pick.show(v); mark(); });
  const inputs = {}, labels = {
    universal: [["trigger", "runs ≥"], ["ratio", "ratio %"], ["amplification", "max amp %"]],
    leveled: [["level0", "L0 ≥"], ["base", "L1 target"], ["multiplier", "level ×"]],
  };
  const labelled = Object.entries(labels).flatMap(([of, some]) => some.map(([name, words]) => {
    inputs[name] = lwEl("input", { type: "text", inputmode: name === "base" ? "text" : "numeric", "aria-label": "B: " + words, size: name === "base" ? 6 : 4 });
    inputs[name].addEventListener("keydown", (event) => {
      event.stopPropagation();
      if (event.key === "Enter") send();
    });
    return lwEl("label", { "data-of": of }, words, inputs[name]);
  }));
  const note = lwEl("span", { class: "lw-hint" });
  const bar = lwEl("i", {}), meter = lwEl("span", { class: "lw-meter", role: "progressbar", "aria-label": "replay", "aria-valuemin": 0, "aria-valuemax": 100 }, bar);
  const go = lwButton("", "replay B under these options", () => send(), { text: "Replay", primary: true });
  const cancel = lwButton("", "cancel the replay", () => model.send({ verb: "cancel" }), { text: "Cancel" });
  const node = lwEl("div", { class: "lw-fields", role: "group", "aria-label": "options of B" },
    lwEl("span", { class: "lw-letter" }, "B"), pick, ...labelled, go, cancel, meter, note);

  function send() {
    if (go.disabled) return;
    const form = { strategy };
    for (const [name, input] of Object.entries(inputs)) form[name] = input.value;
    model.send({ verb: "replay", form });
  }
  function mark() {
    for (const label of labelled) label.hidden = label.dataset.of !== strategy;
    const progress = (model.get("progress") || {}).text, foreign = "leveled is not Paimon's: another engine goes on by universal rules";
    note.textContent = progress || (model.get("static") ? "replaying needs a kernel" : strategy === "leveled" ? foreign : "");
    note.title = note.textContent;
  }
  let shown = null;
  function draw() {
    const progress = model.get("progress") || {}, form = model.get("form") || {}, off = model.get("static");
    if (JSON.stringify(form) !== shown) {
      shown = JSON.stringify(form);
      strategy = form.strategy || "universal";
      pick.show(strategy);
      for (const [name, input] of Object.entries(inputs)) input.value = form[name] || "";
    }
    for (const control of [...pick.children, ...Object.values(inputs)]) control.disabled = !!off;
    go.disabled = !!progress.busy || !!off;
    cancel.disabled = !progress.busy;
    meter.hidden = !progress.busy;
    bar.style.width = 100 * (progress.share || 0) + "%";
    meter.setAttribute("aria-valuenow", Math.round(100 * (progress.share || 0)));
    mark();
  }
  return { node, draw };
}
