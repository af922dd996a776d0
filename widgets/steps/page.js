// The steps of a page without a kernel.
LW_REPLIES.steps = (model, spec) => {
  const reply = () => {
    const width = lwFit(spec.widths, model.get("width")), at = model.get("index");
    lwSet(model, { frame: { ...spec.words[width], ...spec.frames[width][at] }, selected: [at], snapshot: spec.snapshots[at] });
  };
  model.on("change:width", reply);
  model.on("change:index", reply);
  model.on("change:snapshot", () => {
    const now = model.get("snapshot"), at = spec.snapshots.indexOf(now);
    if (at >= 0 && spec.snapshots[model.get("index")] !== now) lwSet(model, { index: at });
  });
  reply();
};
