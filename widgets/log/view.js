// LogAndLake: which bucket, read again, cards of files and snapshots by pointer and by keys. The picture comes from
// Python, again when the log has changed.
function renderLog({ model, el }) {
  const stage = lwStage(model, el, "log");
  const host = lwEl("div", { class: "lw-pic", tabindex: 0, role: "slider", "aria-label": "file or snapshot" });
  const bucket = lwEl("select", { "aria-label": "bucket", onchange: () => choose(bucket.value) });
  const again = lwButton("", "refresh", () => model.send({ verb: "refresh" }), { text: "Refresh" });
  stage.tools.append(bucket, again);
  stage.body.append(host);
  const card = lwCard(stage);
  let svg = null, pointer = null, at = -1, shown = "";
  const meta = () => (model.get("frame") || {}).meta || {};
  const spots = () => meta().spots || [];
  function choose(value) { lwSet(model, { bucket: value === "" ? null : Number(value) }); }
  const spotAt = (x, y) => spots().findIndex(([sx, sy, w, h]) => x >= sx - 1 && x <= sx + w + 1 && y >= sy - 2 && y <= sy + h + 2);
  const ring = ([x, y, w, h], wide) => lwMark("rect", { class: "cursor ring", x: x - 2, y: y - 2, width: w + 4, height: h + 4, rx: 4, fill: "none", stroke: "var(--lw-ink)", "stroke-width": wide });
  function marks() {
    if (!svg) return;
    svg.querySelectorAll(".cursor").forEach((node) => node.remove());
    if (pointer) {
      const over = spotAt(...lwPoint(svg, pointer));
      if (over >= 0) {
        svg.append(ring(spots()[over], 2));
        return card.show(pointer, spots()[over][4], spots()[over][5]);
      }
    } else if (at >= 0 && at < spots().length && document.activeElement === host) {
      const [x, y, w, h, heading, facts] = spots()[at], box = svg.getBoundingClientRect(), scale = box.width / svg.viewBox.baseVal.width;
      svg.append(ring([x, y, w, h], 2));
      return card.show({ clientX: box.left + (x + w) * scale, clientY: box.top + (y + h) * scale }, heading, facts);
    }
    card.hide();
  }
  function tools() {
    const some = meta().buckets || [], names = some.join(), now = model.get("bucket"), still = model.get("static");
    if (names !== shown) {
      shown = names;
      bucket.replaceChildren(lwEl("option", { value: "" }, "all buckets"), ...some.map((b) => lwEl("option", { value: b }, "bucket " + b)));
    }
    bucket.value = now == null ? "" : String(now);
    bucket.hidden = some.length < 2;
    bucket.disabled = again.hidden = still;
  }
  function draw() {
    const frame = model.get("frame");
    stage.words(frame);
    svg = frame.svg ? stage.picture(host, frame.svg) : null;
    stage.root.dataset.n = String(spots().length);
    tools();
    aria();
    marks();
  }
  function aria() {
    const some = spots(), one = some[at];
    host.setAttribute("aria-label", "file or snapshot; " + ((model.get("frame") || {}).label || ""));
    host.setAttribute("aria-valuemin", 0);
    host.setAttribute("aria-valuemax", Math.max(some.length - 1, 0));
    host.setAttribute("aria-valuenow", Math.max(at, 0));
    const words = one ? one[4] + ": " + one[5].map((pair) => pair.join(" ")).join(", ") : "none chosen";
    host.setAttribute("aria-valuetext", words);
    if (one) stage.say(words);
  }
  function go(to) {
    at = to == null ? -1 : Math.min(Math.max(to, 0), spots().length - 1);
    pointer = null;
    aria();
    marks();
  }
  host.addEventListener("pointermove", (event) => { pointer = event; marks(); });
  host.addEventListener("pointerleave", () => { pointer = null; marks(); });
  host.addEventListener("blur", marks);
  const by = (step) => (event) => go(at < 0 ? spots().length - 1 : at + step * (event.shiftKey ? 10 : 1));
  lwKeys(host, {
    ArrowLeft: by(-1), ArrowRight: by(1), Home: () => go(0), End: () => go(spots().length - 1), Escape: () => go(null),
    r: () => { if (!model.get("static")) model.send({ verb: "refresh" }); },
  });
  stage.on("change:frame", draw);
  stage.on("change:bucket", tools);
  draw();
  return () => stage.off();
}
