// MaintenanceView: a picture that Python draws when the service has said something new; Pause or Resume, and Stop.
function renderMaintenance({ model, el }) {
  const stage = lwStage(model, el, "maintenance");
  const host = lwEl("div", { class: "lw-pic", role: "img" });
  const main = lwButton("pause", "pause", () => model.send({ verb: main.dataset.verb || "pause" }), { text: "Pause" });
  const stop = lwButton("stop", "stop", () => model.send({ verb: "stop" }), { text: "Stop" });
  stop.title = "end the service after the work under way";
  const hint = lwEl("span", { class: "lw-hint lw-wide" });
  stage.tools.append(hint, main, stop);
  stage.body.append(host);
  let state = "";
  function draw() {
    const frame = model.get("frame"), still = model.get("static"), kind = frame.state || "";
    const live = kind === "running" || kind === "paused", can = frame.can || [];
    stage.words(frame);
    if (frame.svg) stage.picture(host, frame.svg);
    host.setAttribute("aria-label", frame.label || "");
    stage.root.dataset.state = kind;
    stage.root.dataset.n = String(host.querySelectorAll(".work").length);
    const [icon, verb, text] = kind === "paused" ? ["play", "resume", "Resume"] : ["pause", "pause", "Pause"];
    main.hidden = stop.hidden = !can.length;
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
