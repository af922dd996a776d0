// TieringView: buttons that never move; cards of tables, rounds, buckets and heartbeats by pointer and by keys; a click
// or Enter chooses a table or a round. The picture comes from Python, again when the service has said something new.
function renderTiering({ model, el }) {
  const stage = lwStage(model, el, "tiering");
  const host = lwEl("div", { class: "lw-pic", tabindex: 0, role: "slider", "aria-label": "table, round or bucket" });
  const button = (icon, verb, text, title) => {
    const made = lwButton(icon, verb, () => model.send({ verb: made.dataset.verb || verb }), { text });
    made.title = title;
    return made;
  };
  const main = button("pause", "pause", "Pause", "");
  const stop = button("stop", "stop", "Stop", "end the service; tables that it holds are reported as failed, and come again");
  const kill = button("", "kill", "Kill", "end it at once, in the middle of what it does");
  const start = button("play", "start", "Start", "start a service again");
  const hint = lwEl("span", { class: "lw-hint lw-wide" });
  stage.tools.append(hint, main, stop, kill, start);
  stage.body.append(host);
  const card = lwCard(stage);
  let svg = null, state = "", pointer = null, at = -1;
  const frame = () => model.get("frame"), spots = () => (frame().meta || {}).spots || [];
  // The smallest spot under the pointer: a round lies in the row of its table.
  function spotAt(x, y) {
    let best = -1;
    spots().forEach(([sx, sy, w, h], i) => {
      if (x < sx - 1 || x > sx + w + 1 || y < sy - 1 || y > sy + h + 1) return;
      if (best < 0 || w * h < spots()[best][2] * spots()[best][3]) best = i;
    });
    return best;
  }
  const ring = ([x, y, w, h]) => lwMark("rect", { class: "cursor ring", x: x - 2, y: y - 2, width: w + 4, height: h + 4, rx: 4, fill: "none", stroke: "var(--lw-ink)", "stroke-width": 1 });
  function marks() {
    if (!svg) return;
    svg.querySelectorAll(".cursor").forEach((node) => node.remove());
    if (pointer) {
      const over = spotAt(...lwPoint(svg, pointer));
      host.style.cursor = over >= 0 && spots()[over][6] ? "pointer" : "";
      if (over >= 0) {
        svg.append(ring(spots()[over]));
        return card.show(pointer, spots()[over][4], spots()[over][5]);
      }
    } else if (at >= 0 && at < spots().length && document.activeElement === host) {
      const [x, y, w, h, heading, facts] = spots()[at], box = svg.getBoundingClientRect(), scale = box.width / svg.viewBox.baseVal.width;
      svg.append(ring([x, y, w, h]));
      return card.show({ clientX: box.left + (x + Math.min(w, 200)) * scale, clientY: box.top + (y + h) * scale }, heading, facts);
    }
    card.hide();
  }
  function choose(i) {
    const one = spots()[i];
    if (one && one[6]) lwSet(model, { round: one[7], table: one[6] });
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
    svg = f.svg ? stage.picture(host, f.svg) : null;
    stage.root.dataset.state = f.state || "";
    stage.root.dataset.n = String(spots().length);
    buttons();
    aria();
    marks();
    if (f.state !== state) stage.say(f.label || "");
    state = f.state;
  }
  function aria() {
    const some = spots(), one = some[at];
    host.setAttribute("aria-label", "table, round or bucket; " + (frame().label || ""));
    host.setAttribute("aria-valuemin", 0);
    host.setAttribute("aria-valuemax", Math.max(some.length - 1, 0));
    host.setAttribute("aria-valuenow", Math.max(at, 0));
    const words = one ? one[4] + ": " + one[5].map((pair) => pair.join(" ")).join(", ") : "none chosen";
    host.setAttribute("aria-valuetext", words);
    return words;
  }
  function go(to) {
    at = to == null ? -1 : Math.min(Math.max(to, 0), spots().length - 1);
    pointer = null;
    stage.say(aria());
    marks();
  }
  host.addEventListener("pointermove", (event) => { pointer = event; marks(); });
  host.addEventListener("pointerleave", () => { pointer = null; marks(); });
  host.addEventListener("blur", marks);
  host.addEventListener("click", (event) => { if (svg) choose(spotAt(...lwPoint(svg, event))); });
  const by = (step) => (event) => go(at < 0 ? (step > 0 ? 0 : spots().length - 1) : at + step * (event.shiftKey ? 10 : 1));
  lwKeys(host, {
    ArrowUp: by(-1), ArrowLeft: by(-1), ArrowDown: by(1), ArrowRight: by(1), Home: () => go(0),
    End: () => go(spots().length - 1), Escape: () => go(null), Enter: () => choose(at),
    " ": () => { if (!main.disabled && !main.hidden) main.click(); },
  });
  stage.on("change:frame", draw);
  draw();
  return () => stage.off();
}
