// TieringView: buttons that never move; cards of tables, rounds, buckets and heartbeats by pointer and by keys; a click
// or Enter chooses a table or a round. The picture comes from Python, again when the service has said something new.
function renderTiering({ model, el }) {
  const stage = lwStage(model, el, "tiering");
  const host = lwEl("div", { class: "lw-pic", tabindex: 0, role: "slider" });
  const button = (icon, verb, text, title) => {
    const button = lwButton(icon, verb, () => model.send({ verb: button.dataset.verb || verb }), { text });
    button.title = title;
    return button;
  };
  const main = button("pause", "pause", "Pause", "");
  const stop = button("stop", "stop", "Stop", "end the service; tables that it holds are reported as failed, and come again");
  const kill = button("", "kill", "Kill", "end it at once, in the middle of what it does");
  const start = button("play", "start", "Start", "start a service again");
  const hint = lwEl("span", { class: "lw-hint lw-wide" });
  stage.tools.append(hint, main, stop, kill, start);
  stage.body.append(host);
  let state = "";
  const frame = () => model.get("frame"), places = () => (frame().meta || {}).spots || [];
  const over = (i) => { host.style.cursor = i >= 0 && places()[i][6] ? "pointer" : ""; };
  const spots = lwSpots(stage, host, places, { label: "table, round or bucket", wide: 1, over });
  function choose(i) {
    const [table, round] = (places()[i] || []).slice(6);
    if (table) lwSet(model, { round, table });
  }
  function buttons() {
    const f = frame(), kind = f.state || "", still = model.get("static"), live = ["running", "paused"].includes(kind), can = f.can || [];
    const [icon, verb, text] = kind === "paused" ? ["play", "resume", "Resume"] : ["pause", "pause", "Pause"];
    for (const [node, name] of [[main, "pause"], [stop, "stop"], [kill, "kill"], [start, "start"]]) node.hidden = !can.includes(name);
    main.disabled = stop.disabled = still || !live;
    kill.disabled = still || !(live || kind === "stopping");
    start.disabled = still || live || kind === "stopping";
    main.dataset.verb = verb;
    if (main.textContent !== text) main.replaceChildren(lwIcon(icon), lwEl("span", {}, text));
    main.setAttribute("aria-label", verb);
    main.title = verb === "pause" ? "begin no round; those under way are finished" : "begin rounds again";
    hint.textContent = still && can.length ? "needs a kernel" : "";
  }
  function draw() {
    const f = frame();
    stage.words(f);
    stage.root.dataset.state = f.state || "";
    buttons();
    spots.draw(f.svg ? stage.picture(host, f.svg) : null, f.label || "");
    if (f.state !== state) stage.say(f.label || "");
    state = f.state;
  }
  host.addEventListener("click", (event) => choose(spots.under(event)));
  lwKeys(host, {
    ...spots.keys, Enter: () => choose(spots.at()), " ": () => { if (!main.disabled && !main.hidden) main.click(); },
  });
  stage.on("change:frame", draw);
  draw();
  return () => stage.off();
}
