// LakeAlarms: a list of alarms; a click or an arrow marks one, and the figures of its table are drawn below.
function renderAlarms({ model, el }) {
  const stage = lwStage(model, el, "alarms");
  const pic = lwEl("div", { class: "lw-pic", role: "listbox", "aria-label": "alarms of the lake, those that hold first", tabindex: 0 });
  const stop = lwButton("", "read no more tables", () => model.send({ verb: "stop" }), { text: "Stop" });
  const again = lwButton("", "read every table again", () => model.send({ verb: "refresh" }), { text: "Read again" });
  const progress = lwEl("span", { class: "lw-hint" });
  stage.tools.append(progress, stop, again);
  stage.body.append(pic);
  const still = () => model.get("static");
  const list = () => [...pic.querySelectorAll(".alarm")];
  function mark(row) {
    if (!row) return;
    lwSet(model, { alarm: row.dataset.alarm });
    stage.say(row.getAttribute("aria-label"));
  }
  pic.addEventListener("click", (event) => mark(event.target.closest(".alarm")));
  const step = (by) => () => {
    const all = list(), at = all.findIndex((row) => row.dataset.alarm === model.get("alarm"));
    mark(all[Math.min(Math.max(at + by, 0), all.length - 1)]);
  };
  lwKeys(pic, {
    ArrowUp: step(-1), ArrowDown: step(1), Home: step(-1e6), End: step(1e6),
    Escape: () => lwSet(model, { alarm: "" }),
  });
  function draw() {
    const f = model.get("frame");
    stage.words(f);
    if (f.svg) stage.picture(pic, f.svg);
    stage.root.dataset.n = String(list().length);
    stop.hidden = still() || !f.reading;
    again.hidden = still() || f.reading;
    progress.textContent = f.reading ? f.progress || "" : "";
  }
  stage.on("change:frame", draw);
  draw();
  return () => stage.off();
}
