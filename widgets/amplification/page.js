// The charts of a page without a kernel: drawn beforehand; the words of each snapshot are in `series`.
LW_REPLIES.amplification = (model, spec) => {
  const ids = () => model.get("series").ids;
  const draw = () => { const width = lwFit(spec.widths, model.get("width")); lwSet(model, { frame: { ...spec.words[width], ...spec.frames[width], names: spec.names } }); };
  model.on("change:width", draw);
  model.on("change:index", () => {
    const id = lwIdAt(ids(), model.get("index"));
    if (id != null) lwSet(model, { snapshot: id, selected: [id] });
  });
  model.on("change:snapshot", () => { const i = lwPlaceOf(ids(), model.get("snapshot")); if (i >= 0) lwSet(model, { index: i }); });
  draw();
};
