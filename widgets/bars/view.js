// BarChart: pages by buttons, a list and the arrow keys; when other rows come, each bar moves to its new place.
function renderBars({ model, el }) {
  const stage = lwStage(model, el, "bars");
  const host = lwEl("div", { class: "lw-pic", tabindex: 0, role: "group" });
  const groups = () => model.get("frame").groups || [];
  const go = (to) => { if (to >= 0 && to < groups().length) lwSet(model, { index: to }); };
  const list = lwEl("select", { "aria-label": "which group", onchange: () => go(list.selectedIndex) });
  const back = lwButton("prev", "the group before", () => go(model.get("index") - 1));
  const on = lwButton("next", "the next group", () => go(model.get("index") + 1));
  stage.tools.append(back, list, on);
  stage.body.append(host);
  const rows = () => [...host.querySelectorAll(".row")];
  const wide = (row) => row.querySelector(".bar").getBBox();
  function places() {
    return new Map(rows().map((row) => [row.dataset.name, { y: Number(row.dataset.y), box: wide(row) }]));
  }
  function move(before) {
    if (lwStill() || !host.animate || !before.size) return;
    const time = { duration: 400, easing: "cubic-bezier(.2,0,0,1)" };
    for (const row of rows()) {
      const old = before.get(row.dataset.name), bar = row.querySelector(".bar"), now = wide(row), y = Number(row.dataset.y);
      if (!old) { row.animate([{ opacity: 0 }, { opacity: 1 }], time); continue; }
      if (old.y !== y) row.animate([{ transform: `translate(0px, ${old.y}px)` }, { transform: `translate(0px, ${y}px)` }], time);
      if (Math.abs(old.box.width - now.width) > 0.5 && now.width > 0) {
        bar.style.transformBox = "fill-box";
        bar.animate([{ transform: `scaleX(${old.box.width / now.width})` }, { transform: "none" }], time);
      }
    }
  }
  function tools(frame) {
    const names = groups(), many = names.length > 1;
    for (const node of [back, list, on]) node.hidden = !many;
    if (list.length !== names.length || [...list.options].some((o, i) => o.textContent !== names[i]))
      list.replaceChildren(...names.map((name) => lwEl("option", {}, name)));
    list.selectedIndex = model.get("index");
    back.disabled = model.get("index") <= 0;
    on.disabled = model.get("index") >= names.length - 1;
    host.setAttribute("aria-label", frame.label || "bars");
  }
  function draw() {
    const frame = model.get("frame"), before = host.querySelector("svg") ? places() : new Map();
    stage.words(frame);
    if (frame.svg) stage.picture(host, frame.svg);
    stage.root.dataset.n = String(rows().length);
    tools(frame);
    move(before);
    stage.say(frame.label || "");
  }
  lwKeys(host, { ArrowLeft: () => go(model.get("index") - 1), ArrowRight: () => go(model.get("index") + 1), Home: () => go(0), End: () => go(groups().length - 1) });
  stage.on("change:frame", draw);
  draw();
  return () => stage.off();
}
