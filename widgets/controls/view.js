// CompactionControls: buttons send a verb; everything shown comes back as the next frame.
function renderControls({ model, el }) {
  const stage = lwStage(model, el, "controls");
  const host = lwEl("div", { class: "lw-pic" });
  const send = (verb) => () => model.send({ verb });
  const prev = lwButton("prev", "previous bucket", () => lwSet(model, { index: model.get("index") - 1 }));
  const next = lwButton("next", "next bucket", () => lwSet(model, { index: model.get("index") + 1 }));
  const full = lwEl("input", { type: "checkbox", onchange: () => lwSet(model, { full: full.checked }) });
  stage.tools.append(lwEl("label", { class: "lw-check", title: "plan a compaction of every run into the last level" }, full, "full"), prev, next);
  const step = lwButton("step", "carry out this compaction (S)", send("step"), { text: "Step", primary: true });
  const run = lwButton("fast", "compact every bucket until no rule fires", send("run"), { text: "Run until quiet" });
  const pause = lwButton("pause", "pause after the compaction that is running", send("pause"), { text: "Pause" });
  const dry = lwButton("", "plan again, writes nothing (D)", send("plan"), { text: "Dry run" });
  const note = lwEl("span", { class: "lw-hint" });
  stage.foot.append(step, run, pause, dry, note);
  stage.body.append(host);
  function draw() {
    const f = model.get("frame"), off = model.get("static") ? "needs a kernel" : f.disabled || "", busy = !!f.busy;
    stage.words(f);
    if (f.svg) stage.picture(host, f.svg);
    stage.say(f.says || f.label || "");
    step.disabled = busy || !!off || !f.fires;
    run.disabled = busy || !!off || !f.waiting;
    pause.disabled = !busy;
    dry.disabled = busy || model.get("static");
    prev.disabled = busy || !(model.get("index") > 0) || model.get("static");
    next.disabled = busy || !(model.get("index") < (f.picks || 0) - 1) || model.get("static");
    full.disabled = busy || model.get("static");
    full.checked = model.get("full");
    note.textContent = off || "a dry run writes nothing";
  }
  lwKeys(stage.root, { s: () => { if (!step.disabled) step.click(); }, d: () => { if (!dry.disabled) dry.click(); } });
  stage.on("change:frame", draw);
  stage.on("change:index", draw);
  draw();
  return () => stage.off();
}
