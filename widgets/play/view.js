// CompactionPlay: walk through the scenes by buttons, captions and keys, or let them play.
const PACE = 1600; // ms a scene
function renderPlay({ model, el }) {
  const stage = lwStage(model, el, "play");
  const host = lwEl("div", { class: "lw-pic", tabindex: 0, role: "slider", "aria-label": "scene of the compaction", "aria-valuemin": 1 });
  const scenes = () => model.get("scenes") || [], index = () => Math.min(model.get("index"), Math.max(scenes().length - 1, 0));
  const meta = () => (scenes()[index()] || {}).meta || {};
  let timer = null, said = -1;
  function go(to) {
    const at = Math.min(Math.max(to, 0), scenes().length - 1);
    if (at >= 0 && at !== index()) lwSet(model, { index: at });
  }
  const turn = lwButton("play", "play the compaction", () => play(timer == null), { text: "Play", primary: true });
  const back = lwButton("prev", "one scene back", () => { play(false); go(index() - 1); });
  const on = lwButton("next", "one scene on", () => { play(false); go(index() + 1); });
  stage.tools.append(lwEl("span", { class: "lw-hint lw-wide" }, "← → scene · Space plays"), back, turn, on);
  stage.body.append(host);
  function play(start) {
    clearInterval(timer);
    timer = null;
    if (start && scenes().length > 1) {
      if (index() === scenes().length - 1) lwSet(model, { index: 0 });
      timer = setInterval(() => (index() < scenes().length - 1 ? go(index() + 1) : play(false)), PACE);
    }
    turn.lastChild.textContent = timer == null ? "Play" : "Pause";
    turn.setAttribute("aria-pressed", String(timer != null));
  }
  function draw() {
    const scene = scenes()[index()] || {}, frame = { ...model.get("frame"), ...scene };
    stage.words(frame);
    if (scene.svg) stage.picture(host, scene.svg);
    const says = (meta().says || [])[index()] || "", count = scenes().length;
    stage.root.dataset.n = String(count);
    host.setAttribute("aria-valuemax", String(count));
    host.setAttribute("aria-valuenow", String(index() + 1));
    host.setAttribute("aria-valuetext", says);
    if (said !== index()) { said = index(); stage.say(says); }
    const several = (meta().scenes || []).length > 1;
    back.disabled = !several || index() === 0;
    on.disabled = !several || index() === count - 1;
    turn.disabled = !several;
  }
  host.addEventListener("click", (event) => {
    const chip = event.target.closest(".caption");
    if (!chip) return;
    play(false);
    go((meta().scenes || []).indexOf(Number(chip.dataset.caption)));
  });
  lwKeys(host, { ArrowLeft: () => { play(false); go(index() - 1); }, ArrowRight: () => { play(false); go(index() + 1); },
    Home: () => go(0), End: () => go(scenes().length - 1), " ": () => play(timer == null) });
  stage.on("change:scenes", draw);
  stage.on("change:frame", draw);
  stage.on("change:index", draw);
  draw();
  return () => { play(false); stage.off(); };
}
