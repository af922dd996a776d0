// IngestProgress: two buttons that never move, cards of the chunks; the picture comes from Python at most ten
// times a second.
function renderIngest({ model, el }) {
  const stage = lwStage(model, el, "ingest");
  const host = lwEl("div", { class: "lw-pic" });
  const card = lwEl("div", { class: "lw-card", hidden: true });
  const main = lwButton("pause", "pause", () => model.send({ verb: verb() }), { text: "Pause" });
  const stop = lwButton("stop", "stop", () => model.send({ verb: "stop" }), { text: "Stop" });
  const hint = lwEl("span", { class: "lw-hint lw-wide" });
  const words = { w: "waiting", r: "reading", d: "read, awaiting commit", c: "committed" };
  stage.tools.append(hint, main, stop);
  stage.body.append(host, card);
  let svg = null, state = "", hovered = -1;
  const frame = () => model.get("frame"), meta = () => frame().meta || {}, grid = () => meta().grid || { count: 0 };
  const selected = () => (model.get("selected").length && model.get("selected")[0] < grid().count ? model.get("selected")[0] : -1);
  const over = () => frame().state === "failed" || frame().state === "stopped";

  function verb() {
    return over() ? "retry" : frame().state === "paused" ? "resume" : "pause";
  }
  function place(n) {
    const g = grid();
    return [g.x + (n % g.per_row) * g.pitch, g.y + Math.floor(n / g.per_row) * g.row];
  }
  function at(event) {
    const g = grid(), [x, y] = lwPoint(svg, event);
    const column = Math.floor((x - g.x) / g.pitch), row = Math.floor((y - g.y) / g.row), n = row * g.per_row + column;
    return g.count && column >= 0 && column < g.per_row && row >= 0 && n < g.count ? n : -1;
  }
  function marks() {
    if (!svg) return;
    svg.querySelectorAll(".cursor").forEach((node) => node.remove());
    for (const [n, gap, wide] of [[hovered, 1, 1], [selected(), 2.5, 2]]) {
      if (n < 0) continue;
      const [x, y] = place(n), g = grid();
      svg.append(lwRing([x, y, g.w, g.h], { gap, wide }));
    }
    showCard(hovered >= 0 ? hovered : selected());
  }
  function showCard(n) {
    const state = n >= 0 ? words[(meta().states || "")[n]] : "";
    card.hidden = !state;
    if (!state) return;
    const rows = [["chunk " + n, state], ...(model.get("cards")[n] || [])];
    card.replaceChildren(...rows.map(([name, value]) => lwEl("div", {}, lwEl("span", {}, name), lwEl("span", {}, value))));
    const [x, y] = place(n), scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width, g = grid();
    card.style.left = Math.max(8, Math.min(x * scale, host.clientWidth - card.offsetWidth - 8)) + "px";
    card.style.top = (y + g.h) * scale + 8 + "px";
    if (hovered < 0) stage.say(rows.map((row) => row.join(" ")).join(", "));
  }
  function buttons() {
    const kind = frame().state, live = kind === "running" || kind === "paused", still = model.get("static");
    const [icon, text] = { retry: ["fast", "Retry"], resume: ["play", "Resume"], pause: ["pause", "Pause"] }[verb()];
    main.disabled = still || !(live || over());
    stop.disabled = still || !live;
    if (main.textContent !== text) main.replaceChildren(lwIcon(icon), lwEl("span", {}, text));
    main.setAttribute("aria-label", text.toLowerCase());
    main.title = text.toLowerCase();
    hint.textContent = still ? "needs a kernel" : "";
  }
  function draw() {
    const f = frame(), some = grid().count > 0;
    stage.words(f);
    svg = f.svg ? stage.picture(host, f.svg) : null;
    for (const [name, value] of Object.entries({ role: some ? "slider" : "img", "aria-label": some ? "chunk; " + f.label : f.label || "" })) host.setAttribute(name, value);
    if (some) host.tabIndex = 0; else host.removeAttribute("tabindex");
    stage.root.dataset.state = f.state || "";
    stage.root.dataset.n = String((meta().states || "").length);
    buttons();
    aria();
    marks();
    if (f.state !== state) stage.say(f.label || "");
    state = f.state;
  }
  function aria() {
    const n = selected();
    if (!grid().count) return;
    lwChosen(host, n, grid().count, n < 0 ? "none chosen" : `chunk ${n}, ${words[meta().states[n]]}`);
  }
  function choose(n) {
    const to = n == null ? [] : [Math.min(Math.max(n, 0), grid().count - 1)];
    if (grid().count) lwSet(model, { selected: to });
  }
  function hover(n) {
    if (n === hovered) return;
    hovered = n;
    lwSet(model, { hovered: n < 0 ? "" : String(n) });
    marks();
  }
  host.addEventListener("pointermove", (event) => svg && hover(at(event)));
  host.addEventListener("pointerleave", () => hover(-1));
  host.addEventListener("click", (event) => { const n = svg ? at(event) : -1; choose(n < 0 ? null : n); });
  const by = (step) => (event) => choose(selected() < 0 ? 0 : selected() + step() * (event.shiftKey ? 10 : 1));
  lwKeys(host, {
    ArrowLeft: by(() => -1), ArrowRight: by(() => 1), ArrowUp: by(() => -grid().per_row), ArrowDown: by(() => grid().per_row),
    Home: () => choose(0), End: () => choose(grid().count - 1), Escape: () => choose(null),
    " ": () => { if (!main.disabled) model.send({ verb: verb() }); },
  });
  stage.on("change:frame", draw);
  stage.on("change:cards", marks);
  stage.on("change:selected", () => { aria(); marks(); });
  draw();
  return () => stage.off();
}
