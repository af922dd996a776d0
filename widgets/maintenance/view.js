// MaintenanceView: a picture that Python draws when the service has said something new; Pause or Resume, Stop, and a replay
// of the history under other options.
function renderMaintenance({ model, el }) {
  const stage = lwStage(model, el, "maintenance");
  const host = lwEl("div", { class: "lw-pic", role: "img" });
  const main = lwButton("pause", "pause", () => model.send({ verb: main.dataset.verb || "pause" }), { text: "Pause" });
  const stop = lwButton("stop", "stop", () => model.send({ verb: "stop" }), { text: "Stop" });
  stop.title = "end the service after the work under way";
  const replay = lwButton("", "try other options on the recorded history", () => model.send({ verb: "advise" }), { text: "Try options" });
  replay.title = "replay the history of the table with most to do; nothing is changed";
  const advice = lwEl("pre", { class: "lw-code", hidden: true });
  const hint = lwEl("span", { class: "lw-hint lw-wide" });
  stage.tools.append(hint, replay, main, stop);
  stage.body.append(host, advice);
  let state = "";
  function draw() {
    const frame = model.get("frame"), still = model.get("static"), kind = frame.state || "";
    const live = ["running", "paused", "waiting"].includes(kind), can = frame.can || [];
    stage.words(frame);
    if (frame.svg) stage.picture(host, frame.svg);
    host.setAttribute("aria-label", frame.label || "");
    stage.root.dataset.state = kind;
    stage.root.dataset.n = String(host.querySelectorAll(".work").length);
    const [icon, verb, text] = kind === "paused" ? ["play", "resume", "Resume"] : ["pause", "pause", "Pause"];
    main.hidden = stop.hidden = replay.hidden = !can.length;
    replay.disabled = still;
    advice.hidden = !frame.advice;
    if (advice.textContent !== (frame.advice || "")) { advice.textContent = frame.advice || ""; stage.say(advice.textContent.split("\n")[0]); }
    main.disabled = stop.disabled = still || !live;
    main.dataset.verb = verb;
    if (main.textContent !== text) main.replaceChildren(lwIcon(icon), lwEl("span", {}, text));
    main.setAttribute("aria-label", verb);
    hint.textContent = still && live ? "needs a kernel" : "";
    if (kind !== state) stage.say(frame.label || "");
    state = kind;
  }
  stage.on("change:frame", draw);
  draw();
  return () => stage.off();
}
