// ShopGame: clock, moves, log. Pictures and words come from Python: `frame`, `now`; moves go there as messages.
// In a page without a kernel what was recorded is played back, a point a tick and a move.
const GAME_MOVES = [["flush", "Flush", "f"], ["step", "Step", "s"], ["full", "Full", "c"], ["lower", "Trigger −", "-"],
  ["raise", "Trigger +", "+"], ["strategy", "Strategy", "l"], ["double", "Buckets × 2", "b"]];
const GAME_TICK = 600; // ms of a recorded tick at ×1
function renderGame({ model, el }) {
  const stage = lwStage(model, el, "game");
  const still = () => !!model.get("static");
  const clock = lwEl("b", { class: "lw-clock" });
  const play = lwButton("play", "play or pause the clock (Space)", () => toggle(), { text: "Play", primary: true });
  const tickOne = lwButton("step", "let one tick pass (t)", () => tick(), { text: "Tick" });
  const back = lwButton("prev", "one step back (←)", () => { stop(); go(place() - 1); controls(); });
  const speed = lwButton("", "speed of the clock (x)", () => lwSet(model, { pace: model.get("pace") === 2 ? 1 : 2 }), { text: "×1" });
  const again = lwButton("", "play the stage from its first tick (r)", () => restart(), { text: "Restart" });
  stage.tools.append(clock, play, back, tickOne, speed, again);
  const stages = lwSegments("stage", ["1", "2", "3", "4", "5"].map((n) => [n, n === "1" ? "Stage 1" : n]), (n) => lwSet(model, { stage: Number(n) }));
  const moves = {};
  const bar = lwEl("div", { class: "lw-fields", role: "group", "aria-label": "moves" }, stages);
  for (const [verb, words, key] of GAME_MOVES) {
    moves[verb] = lwButton("", `${words} (${key})`, () => send(verb), {});
    moves[verb].append(lwEl("span", {}, words), " ", verb === "lower" || verb === "raise" ? "" : lwEl("kbd", { "aria-hidden": "true" }, key.toUpperCase()));
    moves[verb].setAttribute("aria-keyshortcuts", key);
    bar.append(moves[verb]);
  }
  const note = lwEl("span", { class: "lw-hint" });
  const scrub = lwSlider("recording", (at) => { stop(); go(at); controls(); });
  const before = lwButton("", "the move before (p)", () => toMove(-1), { text: "Move before" });
  const after = lwButton("", "the next move (n)", () => toMove(1), { text: "Next move" });
  const recording = lwEl("div", { class: "lw-fields", role: "group", "aria-label": "recording" }, before, after, scrub, note);
  const host = lwEl("div", { class: "lw-pic", tabindex: 0, role: "application", "aria-label": "the shop: F flush, S step, Space clock" });
  const log = lwEl("ol", { class: "lw-log", "aria-label": "log of moves, newest first" });
  stage.body.append(bar, recording, host, log);
  let timer = null;

  const send = (verb) => { if (!still() && !moves[verb].disabled) model.send({ verb }); };
  const points = () => model.get("points") || [];
  const last = () => Math.max(points().length - 1, 0), place = () => model.get("at") || 0;
  function go(to) {
    if (!still()) return;
    const at = Math.min(Math.max(to, 0), last());
    if (at !== place()) lwSet(model, { at });
  }
  function toMove(way) {
    if (!still()) return;
    stop();
    for (let at = place() + way; at >= 0 && at <= last(); at += way) if (points()[at].move) { go(at); break; }
    controls();
  }
  function stop() { clearTimeout(timer); timer = null; }
  function toggle() {
    if (!still()) return lwSet(model, { playing: !model.get("playing") });
    if (timer) { stop(); return controls(); }
    if (place() >= last()) go(0);
    const next = () => {
      if (place() >= last()) { stop(); return controls(); }
      go(place() + 1);
      timer = setTimeout(next, GAME_TICK / model.get("pace"));
    };
    timer = setTimeout(next, GAME_TICK / model.get("pace"));
    controls();
  }
  function tick() { if (still()) { stop(); go(place() + 1); controls(); } else if (!(model.get("now") || {}).over) model.send({ verb: "tick" }); }
  function restart() { if (still()) { stop(); go(0); controls(); } else model.send({ verb: "restart" }); }
  function controls() {
    const now = model.get("now") || {}, meta = model.get("frame").meta || {}, on = still() ? !!timer : model.get("playing");
    play.replaceChildren(lwIcon(on ? "pause" : "play"), lwEl("span", {}, on ? "Pause" : "Play"));
    play.disabled = still() ? !last() : !!now.over;
    tickOne.disabled = still() ? place() >= last() : !!now.over;
    tickOne.lastChild.textContent = still() ? "On" : "Tick";
    lwName(tickOne, still() ? "On" : "Tick", still() ? "one step on (→)" : "let one tick pass (t)");
    back.hidden = recording.hidden = !still();
    back.disabled = place() <= 0;
    before.disabled = !points().slice(0, place()).some((p) => p.move);
    after.disabled = !points().slice(place() + 1).some((p) => p.move);
    scrub.max = last(); scrub.value = place();
    scrub.setAttribute("aria-valuetext", `tick ${now.tick ?? 0}${now.move ? ", " + now.move : ""}`);
    speed.lastChild.textContent = "×" + model.get("pace");
    lwName(speed, "×" + model.get("pace"), "speed of the clock (x)");
    clock.textContent = `tick ${meta.tick ?? 0} / ${meta.ticks ?? 0}`;
    stages.show(String(model.get("stage")));
    for (const b of stages.children) b.disabled = still();
    for (const [verb, words, key] of GAME_MOVES) {
      const why = still() ? "moves need a kernel" : (now.refusals || {})[verb] || "";
      // A move that cannot be made keeps its place in the tab order, and says why.
      moves[verb].toggleAttribute("data-off", !!why);
      moves[verb].toggleAttribute("data-made", !!now.move && now.move === verb);
      moves[verb].setAttribute("aria-disabled", String(!!why));
      moves[verb].title = why ? `${words}: ${why}` : `${words} (${key})`;
    }
    note.textContent = still() ? (last() ? `a recording: ← → step, N P moves, Space plays${now.move ? " · here: " + now.move : ""}` : "no moves were recorded") : "";
  }
  function show() {
    const now = model.get("now") || {};
    log.replaceChildren(...(now.log || []).map(([at, who, words]) =>
      lwEl("li", { "data-who": who }, lwEl("span", {}, String(at)), lwEl("b", {}, who), lwEl("span", {}, words))));
    if (now.says && now.loud) stage.say(now.says);
    controls();
  }
  function draw() {
    const f = model.get("frame");
    stage.words(f);
    if (f.svg) stage.picture(host, f.svg);
    stage.root.dataset.n = String((f.meta || {}).tick ?? 0);
    controls();
  }
  const keys = { t: tick, T: tick, x: () => speed.click(), r: restart, R: restart, "=": () => send("raise"), "−": () => send("lower") };
  for (const [verb, , key] of GAME_MOVES) { keys[key] = () => send(verb); keys[key.toUpperCase()] = keys[key]; }
  for (const [key, way] of [["n", 1], ["p", -1]]) keys[key] = keys[key.toUpperCase()] = () => toMove(way);
  lwKeys(stage.root, keys);
  const onward = { " ": toggle, ArrowLeft: () => { stop(); go(place() - 1); controls(); }, ArrowRight: tick };
  lwKeys(host, { ...onward, Home: () => go(0), End: () => go(last()) });
  for (const name of ["playing", "pace", "stage", "tick"]) stage.on("change:" + name, controls);
  stage.on("change:frame", draw);
  stage.on("change:now", show);
  draw(); show();
  return () => { stop(); stage.off(); };
}
