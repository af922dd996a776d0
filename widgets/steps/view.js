// StepLanes: walk through the steps by slider, buttons and keys. Python draws each step.
function renderSteps({ model, el }) {
  const stage = lwStage(model, el, "steps");
  const host = lwEl("div", { class: "lw-pic", tabindex: 0, role: "slider", "aria-label": "step", "aria-orientation": "horizontal", "aria-valuemin": 1 });
  const meta = () => model.get("frame").meta || {}, count = () => meta().count || 0, index = () => model.get("index");
  let svg = null;
  function go(to) {
    const at = Math.min(Math.max(to, 0), count() - 1);
    if (at >= 0 && at !== index()) lwSet(model, { index: at });
  }
  const hint = lwEl("span", { class: "lw-hint lw-wide" }, "← → step · Home End");
  stage.tools.append(hint, lwButton("first", "first step", () => go(0)), lwButton("prev", "one step back", () => go(index() - 1)),
    lwButton("next", "one step on", () => go(index() + 1)), lwButton("last", "last step", () => go(count() - 1)));
  const acts = lwEl("span", { class: "lw-acts", role: "group", "aria-label": "one more step" });
  stage.tools.prepend(acts);
  stage.body.append(host);
  function buttons() {
    const lanes = model.get("live") && !model.get("static") ? meta().lanes || [] : [], can = model.get("actions");
    const current = acts.contains(document.activeElement) ? document.activeElement.dataset.name : null;
    acts.replaceChildren(...lanes.map((name) => {
      const button = lwButton("next", "one step of " + name, () => model.send({ verb: "act", name }), { text: name });
      button.disabled = !can.includes(name);
      button.dataset.name = name;
      return button;
    }));
    const again = current && [...acts.children].find((button) => button.dataset.name === current);
    if (again) again.focus();
  }
  function draw() {
    const frame = model.get("frame"), says = (meta().says || [])[index()] || "";
    stage.words(frame);
    svg = frame.svg ? stage.picture(host, frame.svg) : null;
    stage.root.dataset.n = String(count());
    buttons();
    host.setAttribute("aria-valuemax", count());
    host.setAttribute("aria-valuenow", index() + 1);
    host.setAttribute("aria-valuetext", says);
    stage.say(says);
  }
  function at(event) {
    const [x, y] = lwPoint(svg, event), m = meta();
    if (!m.count || y > m.bottom || x < m.x || x > m.x + m.count * m.step) return null;
    return Math.min(Math.floor((x - m.x) / m.step), m.count - 1);
  }
  let dragging = false;
  host.addEventListener("pointerdown", (event) => {
    const place = svg && at(event);
    if (place == null) return;
    host.focus(); dragging = true; host.setPointerCapture(event.pointerId); go(place); event.preventDefault();
  });
  host.addEventListener("pointermove", (event) => {
    const place = svg && at(event);
    if (place == null) return;
    if (dragging) go(place);
    else if (model.get("hovered") !== String(place)) lwSet(model, { hovered: String(place) });
  });
  host.addEventListener("pointerup", () => { dragging = false; });
  host.addEventListener("pointerleave", () => { if (model.get("hovered")) lwSet(model, { hovered: "" }); });
  const by = (n) => (event) => go(index() + n * (event.shiftKey ? 10 : 1));
  lwKeys(host, { ArrowLeft: by(-1), ArrowRight: by(1), Home: () => go(0), End: () => go(count() - 1) });
  stage.on("change:frame", draw);
  stage.on("change:actions", buttons);
  draw();
  return () => stage.off();
}
