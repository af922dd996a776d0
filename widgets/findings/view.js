// Findings: a still picture; its words are in the list's labels too.
function renderFindings({ model, el }) {
  const stage = lwStage(model, el, "findings");
  const host = lwEl("div", { class: "lw-pic", role: "list", "aria-label": "findings" });
  stage.body.append(host);
  function draw() {
    const frame = model.get("frame");
    stage.words(frame);
    if (frame.svg) stage.picture(host, frame.svg);
    stage.root.dataset.n = String(host.querySelectorAll(".finding").length);
    stage.say(frame.label || "");
  }
  stage.on("change:frame", draw);
  draw();
  return () => stage.off();
}
