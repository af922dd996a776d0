// IngestProgress: two buttons that never move; the picture comes from Python at most ten times a second.
function renderIngest({ model, el }) {
  const stage = lwStage(model, el, "ingest");
  const host = lwEl("div", { class: "lw-pic", role: "img" });
  const pause = lwButton("pause", "pause", () => model.send({ verb: model.get("frame").state === "paused" ? "resume" : "pause" }), { text: "Pause" });
  const stop = lwButton("stop", "stop", () => model.send({ verb: "stop" }), { text: "Stop" });
  stage.tools.append(pause, stop);
  stage.body.append(host);
  let state = "";
  function draw() {
    const f = model.get("frame"), live = (f.state === "running" || f.state === "paused") && !model.get("static");
    stage.words(f);
    if (f.svg) stage.picture(host, f.svg);
    host.setAttribute("aria-label", f.label || "");
    stage.root.dataset.state = f.state || "";
    pause.disabled = stop.disabled = !live;
    const paused = f.state === "paused";
    pause.replaceChildren(lwIcon(paused ? "play" : "pause"), lwEl("span", {}, paused ? "Resume" : "Pause"));
    pause.setAttribute("aria-label", paused ? "resume" : "pause");
    if (f.state !== state) stage.say(f.label || "");
    state = f.state;
  }
  stage.on("change:frame", draw);
  draw();
  return () => stage.off();
}
