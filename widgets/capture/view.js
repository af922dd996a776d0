// CaptureProgress: two buttons that never move, cards of chunks and batches, a cursor through the strips of time.
// The picture comes from Python, twice a second while the capture runs.
function renderCapture({ model, el }) {
  const stage = lwStage(model, el, "capture");
  const host = lwEl("div", { class: "lw-pic", tabindex: 0, role: "slider", "aria-label": "batch" });
  const main = lwButton("pause", "pause", () => model.send({ verb: verb() }), { text: "Pause" });
  const stop = lwButton("stop", "stop", () => model.send({ verb: "stop" }), { text: "Stop" });
  const hint = lwEl("span", { class: "lw-hint lw-wide" });
  stage.tools.append(hint, main, stop);
  stage.body.append(host);
  const card = lwCard(stage);
  let svg = null, state = "", pointer = null;
  const frame = () => model.get("frame"), meta = () => frame().meta || {};
  const batches = () => meta().batches || [], boxes = () => meta().boxes || [];
  const verb = () => (frame().state === "paused" ? "resume" : "pause");
  const place = (number) => batches().findIndex((batch) => batch[1] === number);

  const boxAt = (x, y) => boxes().find(([bx, by, w, h]) => x >= bx - 1 && x <= bx + w + 1 && y >= by - 2 && y <= by + h + 2);
  function batchAt(x, y) {
    const m = meta();
    if (!batches().length || y < m.top || y > m.bottom + 20 || x < m.left - 6 || x > m.right + 6) return -1;
    let best = 0;
    batches().forEach(([bx], i) => { if (Math.abs(bx - x) <= Math.abs(batches()[best][0] - x)) best = i; });
    return best;
  }
  const pairs = (names, words) => names.map((name, i) => [name, words[i] || ""]);
  function marks() {
    if (!svg) return;
    svg.querySelectorAll(".cursor").forEach((node) => node.remove());
    const at = place(model.get("batch"));
    if (at >= 0) cursor(at, 2);
    if (pointer) {
      const [x, y] = lwPoint(svg, pointer), box = boxAt(x, y), over = batchAt(x, y);
      if (box) {
        svg.append(lwRing(box));
        return card.show(pointer, box[4], pairs(meta().chunk_names, box.slice(5)));
      }
      if (over >= 0) {
        if (over !== at) cursor(over, 1);
        return card.show(pointer, "batch #" + batches()[over][1], pairs(meta().batch_names, batches()[over].slice(2)));
      }
    }
    if (!pointer && at >= 0 && document.activeElement === host) return pinned(at);
    card.hide();
  }
  // The card of a batch that keys have chosen, beside its line.
  function pinned(at) {
    const [x, number, ...words] = batches()[at], box = svg.getBoundingClientRect(), scale = box.width / svg.viewBox.baseVal.width;
    const spot = { clientX: box.left + x * scale, clientY: box.top + meta().bottom * scale };
    card.show(spot, "batch #" + number, pairs(meta().batch_names, words));
  }
  // A line through the strips, and a ring around each box whose chunks that batch has read.
  function cursor(at, wide) {
    const [x, number] = batches()[at], m = meta();
    svg.append(lwMark("path", { class: "cursor", d: `M${x} ${m.top}V${m.bottom}`, stroke: "var(--lw-ink)", "stroke-width": wide }));
    boxes().filter((box) => box[8] === "#" + number).forEach((box) => svg.append(lwRing(box)));
  }
  function buttons() {
    const kind = frame().state, live = ["running", "paused", "waiting"].includes(kind), still = model.get("static");
    const [icon, text] = kind === "paused" ? ["play", "Resume"] : ["pause", "Pause"];
    main.hidden = stop.hidden = !kind;
    main.disabled = still || !live;
    stop.disabled = still || !live;
    if (main.textContent !== text) main.replaceChildren(lwIcon(icon), lwEl("span", {}, text));
    main.setAttribute("aria-label", text.toLowerCase());
    main.title = kind === "paused" ? "let batches begin again" : "let no batch begin; the one under way is finished";
    stop.title = "end it between two batches; what is committed stays";
    hint.textContent = still && live ? "needs a kernel" : "";
  }
  function draw() {
    const f = frame();
    stage.words(f);
    svg = f.svg ? stage.picture(host, f.svg) : null;
    stage.root.dataset.state = f.state || "";
    stage.root.dataset.n = String(batches().length);
    buttons();
    aria();
    marks();
    if (f.state !== state) stage.say(f.label || "");
    state = f.state;
  }
  function aria() {
    const at = place(model.get("batch")), some = batches();
    host.setAttribute("aria-label", "batch; " + (frame().label || ""));
    const words = at < 0 ? "none chosen" : `batch ${some[at][1]}: ` + pairs(meta().batch_names, some[at].slice(2)).map((pair) => pair.join(" ")).join(", ");
    lwChosen(host, at, some.length, words);
    if (at >= 0) stage.say(words);
  }
  function choose(at) {
    const some = batches();
    if (!some.length && at != null) return;
    lwSet(model, { batch: at == null ? null : some[Math.min(Math.max(at, 0), some.length - 1)][1] });
  }
  host.addEventListener("pointermove", (event) => { pointer = event; marks(); });
  host.addEventListener("pointerleave", () => { pointer = null; marks(); });
  host.addEventListener("blur", marks);
  host.addEventListener("click", (event) => {
    if (!svg) return;
    const at = batchAt(...lwPoint(svg, event)), box = boxAt(...lwPoint(svg, event));
    const to = box ? place(Number(box[8].slice(1))) : at;
    choose(to < 0 ? null : to);
  });
  const by = (step) => (event) => {
    const at = place(model.get("batch"));
    choose(at < 0 ? batches().length - 1 : at + step * (event.shiftKey ? 10 : 1));
  };
  lwKeys(host, {
    ArrowLeft: by(-1), ArrowRight: by(1), Home: () => choose(0), End: () => choose(batches().length - 1),
    Escape: () => choose(null), " ": () => { if (!main.disabled && !main.hidden) model.send({ verb: verb() }); },
  });
  stage.on("change:frame", draw);
  stage.on("change:batch", () => { aria(); marks(); });
  draw();
  return () => stage.off();
}
