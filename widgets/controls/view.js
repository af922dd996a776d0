// CompactionControls: buttons send a verb, inputs set `asked`; everything shown comes back as the next frame.
const LW_STRATEGY = "tablestore.compaction.strategy";
function lwControlsInputs(model, commit) {
  const box = lwEl("div", { class: "lw-inputs", role: "group", "aria-label": "settings" });
  let shown = "";
  return {
    box,
    show: (fields, off) => {
      const now = JSON.stringify([fields, off]);
      if (now === shown) return;
      shown = now;
      const focused = box.contains(document.activeElement) ? document.activeElement.dataset.key : "";
      box.replaceChildren(...fields.map((f) => {
        const input = lwEl("input", { type: "text", inputmode: "numeric", "aria-label": f.title, title: f.title, "data-key": f.key, disabled: off });
        input.value = f.value;
        input.style.width = Math.max(34, 16 + 8 * f.value.length) + "px";
        input.addEventListener("change", () => { shown = ""; commit({ [f.key]: input.value }); });
        input.addEventListener("keydown", (event) => {
          event.stopPropagation();
          if (event.key === "Escape") { input.value = f.value; input.blur(); }
        });
        return lwEl("label", {}, f.label, input);
      }));
      if (focused) box.querySelector(`[data-key="${focused}"]`)?.focus();
    },
  };
}
function lwControlsStrip(kind) {
  const words = lwEl("span", {}), code = lwEl("code", {}), acts = lwEl("div", { class: "lw-acts" });
  const box = lwEl("div", { class: "lw-strip2 lw-strip-" + kind, hidden: true }, words, code, acts);
  return {
    box, acts,
    show: (text, snippet = "") => {
      box.hidden = !text && !snippet;
      words.textContent = text;
      words.hidden = !text;
      code.textContent = snippet;
      code.hidden = !snippet;
    },
  };
}
function renderControls({ model, el }) {
  const stage = lwStage(model, el, "controls");
  const host = lwEl("div", { class: "lw-pic" }), past = lwEl("div", { class: "lw-past", hidden: true });
  const send = (verb) => () => model.send({ verb });
  const commit = (change) => lwSet(model, { asked: { ...model.get("asked"), ...change } });
  const strategy = lwSegments("strategy", [["universal", "Universal"], ["leveled", "Leveled*"]], (value) => commit({ [LW_STRATEGY]: value }));
  strategy.lastChild.title = "not Paimon's";
  stage.tools.append(strategy);
  const full = lwEl("input", { type: "checkbox", onchange: () => lwSet(model, { full: full.checked }) });
  const place = lwEl("b", {}), waits = lwEl("span", { class: "lw-hint" });
  const prev = lwButton("prev", "previous bucket", () => lwSet(model, { index: model.get("index") - 1 }));
  const next = lwButton("next", "next bucket", () => lwSet(model, { index: model.get("index") + 1 }));
  const where = lwEl("div", { class: "lw-row2 lw-where" }, place, lwEl("span", { class: "lw-gap" }), waits, prev, next);
  const inputs = lwControlsInputs(model, commit);
  const whole = lwEl("label", { class: "lw-check", title: "plan a compaction of every run into the oldest level" }, full, "full");
  const sets = lwEl("div", { class: "lw-sets" }, inputs.box, whole);
  const refusal = lwControlsStrip("err"), warning = lwControlsStrip("warn"), remark = lwControlsStrip("remark"), preview = lwControlsStrip("preview");
  preview.acts.append(
    lwButton("", "store these settings as table options", send("store"), { text: "Store as table options" }),
    lwButton("", "back to the table's own settings", send("reset"), { text: "Reset" }));
  const plan = lwEl("div", { class: "lw-plan" }, stage.foot, host); // the buttons stay where they are whatever the plan says
  const plans = lwEl("div", {}, plan, past);
  stage.body.append(where, sets, refusal.box, preview.box, warning.box, remark.box, plans);
  const step = lwButton("step", "carry out this compaction (S)", send("step"), { text: "Step", primary: true });
  const run = lwButton("fast", "compact every bucket until no rule fires", send("run_until_quiet"), { text: "Run until quiet" });
  const pause = lwButton("pause", "stop at once; what is not committed is given up", send("pause"), { text: "Pause" });
  const dry = lwButton("", "plan again, writes nothing (D)", send("refresh"), { text: "Dry run" });
  const flush = lwButton("", "write one flush (F)", send("flush"), { text: "Flush" });
  const auto = lwEl("input", { type: "checkbox", onchange: () => lwSet(model, { auto: auto.checked }) });
  const every = lwEl("input", { type: "text", inputmode: "numeric", "aria-label": "milliseconds between two steps" });
  every.addEventListener("change", () => lwSet(model, { every_ms: Math.max(50, parseInt(every.value, 10) || 500) }));
  every.addEventListener("keydown", (event) => event.stopPropagation());
  const again = lwEl("label", { class: "lw-check", title: "a step again and again, until paused" }, auto, "auto", every, "ms");
  const note = lwEl("span", { class: "lw-hint" });
  const now = lwButton("last", "go to the newest snapshot", () => (model.get("static") ? lwSet(model, { snapshot: model.get("newest") }) : model.send({ verb: "go_to_now" })), { text: "Back to now" });
  const row = (...kids) => lwEl("div", { class: "lw-acts" }, ...kids);
  const showCode = stage.head.querySelector(".lw-quiet") || "";
  stage.foot.append(
    row(now, step, run, pause),
    row(dry, flush, again, note, showCode));
  // What stands below does not go up and down as rules fire and are done: the room that was once needed stays.
  let tallest = 0, wide = 0;
  function keepRoom() {
    const drawn = host.querySelector("svg")?.viewBox.baseVal.width || 0;
    if (plans.clientWidth !== wide) [wide, tallest] = [plans.clientWidth, 0];
    if (Math.abs(drawn - wide) > 40) return void (plans.style.minHeight = ""); // drawn for another width, it is scaled
    tallest = Math.max(tallest, plan.getBoundingClientRect().height + past.getBoundingClientRect().height);
    plans.style.minHeight = tallest + "px";
  }
  function draw() {
    const f = model.get("frame"), still = model.get("static"), busy = !!f.busy;
    const off = still ? "needs a kernel" : f.disabled || "", shut = busy || still;
    stage.words(f);
    if (f.svg) stage.picture(host, f.svg);
    const stories = f.past || [], story = stories.length > 0;
    host.hidden = story;
    past.hidden = now.hidden = now.disabled = !story;
    const rows = (words) => lwEl("div", { class: words.startsWith("✓") ? "lw-fired" : "" }, words);
    past.replaceChildren(...stories.map(([head, all]) => lwEl("section", {}, lwEl("b", {}, head), ...(all.length ? all : ["No compaction: nothing was merged."]).map(rows))));
    Object.assign(stage.root.dataset, { past: story ? stories[0][0] : "", snapshot: String(f.at) });
    stage.say(f.says || f.label || "");
    strategy.hidden = !f.strategy || !!story;
    strategy.show(f.strategy);
    for (const choice of strategy.children) choice.disabled = shut || !!f.disabled;
    where.hidden = !(f.picks > 1) || !!story;
    where.classList.toggle("lw-many", f.picks > 1);
    lwPlace(place, f.place || "", " · bucket");
    waits.textContent = f.picks > 1 ? f.waits : "";
    waits.title = "buckets in which a rule fires";
    prev.hidden = next.hidden = !(f.picks > 1);
    inputs.box.hidden = !(f.inputs || []).length;
    sets.hidden = !f.place || !!story;
    for (const b of [step, run, pause]) b.hidden = !!story;
    inputs.show(f.inputs || [], shut || !!f.disabled);
    refusal.show(f.refusal || "");
    preview.show(f.store ? "A preview: the table keeps its own settings." : "", f.store);
    warning.show(f.warning || "");
    remark.show(f.remark || "");
    for (const act of preview.acts.children) act.disabled = shut || !!f.disabled;
    step.disabled = busy || !!off || !f.fires;
    run.disabled = busy || !!off || !f.waiting;
    pause.disabled = still || !busy;
    dry.disabled = shut;
    flush.hidden = !f.simulated;
    flush.disabled = busy || !!off;
    prev.disabled = shut || !(model.get("index") > 0);
    next.disabled = shut || !(model.get("index") < (f.picks || 0) - 1);
    full.disabled = shut;
    full.checked = model.get("full");
    auto.disabled = still || !!f.disabled || (busy && !model.get("auto"));
    auto.checked = model.get("auto");
    every.disabled = shut;
    if (document.activeElement !== every) every.value = model.get("every_ms");
    note.textContent = model.get("progress") || off || "";
    again.hidden = !!note.textContent && !model.get("auto");
    keepRoom();
  }
  const press = (button) => () => { if (!button.disabled && !button.hidden) button.click(); };
  lwKeys(stage.root, { s: press(step), d: press(dry), f: press(flush), p: press(pause) });
  for (const name of ["frame", "index", "auto", "progress"]) stage.on("change:" + name, draw);
  draw();
  return () => stage.off();
}
