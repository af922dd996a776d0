// StreamTable: a picture of the last rows, which Python draws at most five times a second, and a button that stops.
function renderStream({ model, el }) {
  const stage = lwStage(model, el, "stream");
  const host = lwEl("div", { class: "lw-pic", role: "img" });
  const stop = lwButton("stop", "stop", () => model.send({ verb: "stop" }), { text: "Stop" });
  const hint = lwEl("span", { class: "lw-hint lw-wide" });
  stage.tools.append(hint, stop);
  stage.body.append(host);
  let state = "";
  function draw() {
    const frame = model.get("frame"), still = model.get("static");
    const live = frame.state === "waiting" || frame.state === "running";
    stage.words(frame);
    if (frame.svg) stage.picture(host, frame.svg);
    host.setAttribute("aria-label", frame.label || "");
    stage.root.dataset.state = frame.state || "";
    stage.root.dataset.n = String(host.querySelectorAll(".row").length);
    stop.disabled = still || !live;
    hint.textContent = still && live ? "needs a kernel" : "";
    if (frame.state !== state) stage.say(frame.label || "");
    state = frame.state;
  }
  stage.on("change:frame", draw);
  draw();
  return () => stage.off();
}
