// LogAndLake: which bucket, read again, cards of files and snapshots by pointer and by keys. The picture comes from
// Python, again when the log has changed.
function renderLog({ model, el }) {
  const stage = lwStage(model, el, "log");
  const host = lwEl("div", { class: "lw-pic", tabindex: 0, role: "slider" });
  const bucket = lwEl("select", { "aria-label": "bucket", onchange: () => choose(bucket.value) });
  const again = lwButton("", "refresh", () => model.send({ verb: "refresh" }), { text: "Refresh" });
  stage.tools.append(bucket, again);
  stage.body.append(host);
  let shown = "";
  const meta = () => (model.get("frame") || {}).meta || {};
  const spots = lwSpots(stage, host, () => meta().spots || [], { label: "file or snapshot" });
  function choose(value) { lwSet(model, { bucket: value === "" ? null : Number(value) }); }
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
    tools();
    spots.draw(frame.svg ? stage.picture(host, frame.svg) : null, frame.label || "");
  }
  lwKeys(host, { ...spots.keys, r: () => { if (!model.get("static")) model.send({ verb: "refresh" }); } });
  stage.on("change:frame", draw);
  stage.on("change:bucket", tools);
  draw();
  return () => stage.off();
}
