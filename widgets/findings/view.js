// Findings: a still picture whose words are in the list's labels too; a button on each call that can be carried
// out. A press asks for the preview, a second one in the strip above the picture carries it out.
function lwFindingsStrip(send) {
  const heading = lwEl("b", {}), code = lwEl("code", {}), asks = lwEl("span", { class: "lw-asks" });
  const effect = lwEl("pre", { tabindex: 0, "aria-label": "what the calls do" });
  const go = lwButton("", "carry it out", () => send("mend"), { text: "Mend", primary: true });
  const drop = lwButton("", "leave everything as it is", () => send("leave"), { text: "Leave" });
  const note = lwEl("span", { class: "lw-hint" });
  const box = lwEl("div", { class: "lw-mend", role: "group", hidden: true }, heading, code, effect, asks,
    lwEl("div", { class: "lw-acts" }, go, drop, note));
  let shown = "";
  return {
    box,
    show: (plan) => {
      const now = JSON.stringify(plan || null);
      if (now === shown) return;
      shown = now;
      const opened = box.hidden && plan;
      box.hidden = !plan;
      if (!plan) return;
      heading.textContent = plan.heading;
      box.setAttribute("aria-label", plan.heading);
      code.textContent = plan.code || "";
      code.hidden = !plan.code;
      effect.textContent = plan.effect || "";
      effect.hidden = !plan.effect;
      asks.textContent = plan.asks ? "▲ To decide: " + plan.asks : "";
      asks.hidden = !plan.asks;
      go.hidden = plan.state !== "asked";
      go.lastChild.textContent = plan.asks ? "Decided: mend" : "Mend";
      drop.lastChild.textContent = plan.state === "asked" ? "Leave" : "Close";
      drop.hidden = plan.state === "busy";
      note.textContent = plan.note || "";
      if (opened) box.scrollIntoView({ block: "nearest" });
      if (plan.state !== "busy") (go.hidden ? drop : go).focus({ preventScroll: true });
    },
  };
}
function renderFindings({ model, el }) {
  const stage = lwStage(model, el, "findings");
  const host = lwEl("div", { class: "lw-pic", role: "list", "aria-label": "findings" });
  const buttons = lwEl("div", { class: "lw-buttons" });
  const send = (verb, at) => model.send({ verb, at });
  const strip = lwFindingsStrip(send);
  const all = lwButton("", "what would mend all that asks for no decision", () => send("preview", -1), { text: "Mend all …" });
  stage.tools.append(all);
  stage.body.append(strip.box, lwEl("div", { class: "lw-findings-pic" }, host, buttons));
  function place(frame) {
    const live = !model.get("static") && frame.mendable;
    buttons.replaceChildren(...Object.entries((live && frame.meta.calls) || {}).map(([at, [top, right]]) => {
      const button = lwButton("", frame.off || "what this call would do; nothing is changed yet", () => send("preview", Number(at)), { text: "Mend …" });
      button.disabled = !!frame.off || frame.busy;
      Object.assign(button.style, { top: top + "%", right: right + "%" });
      return button;
    }));
  }
  function draw() {
    const frame = model.get("frame");
    stage.words(frame);
    if (frame.svg) stage.picture(host, frame.svg);
    stage.root.dataset.n = String(host.querySelectorAll(".finding").length);
    all.hidden = model.get("static") || !(frame.mendable > 1);
    all.disabled = !!frame.off || !!frame.busy;
    place(frame);
    strip.show(model.get("static") ? null : frame.plan);
    stage.say((frame.plan && frame.plan.heading) || frame.label || "");
  }
  lwKeys(strip.box, { Escape: () => send("leave") });
  stage.on("change:frame", draw);
  draw();
  return () => stage.off();
}
