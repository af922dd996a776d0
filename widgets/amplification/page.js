// The charts of a page without a kernel: the words of each snapshot are in the file, of long histories of every so many.
LW_REPLIES.amplification = (model, spec) => {
  const width = () => lwFit(spec.widths, model.get("width"));
  const point = (i) => {
    const all = spec.points[width()];
    return all.reduce((best, p) => (Math.abs(p.index - i) < Math.abs(best.index - i) ? p : best), all[0] || {});
  };
  const words = () => lwSet(model, { now: spec.ids.length ? point(model.get("index")) : {} });
  const draw = () => { lwSet(model, { frame: { ...spec.words[width()], ...spec.frames[width()], names: spec.names } }); words(); };
  model.on("change:width", draw);
  model.on("change:index", () => {
    const id = spec.ids[model.get("index")];
    if (id !== undefined) lwSet(model, { snapshot: id, selected: [id] });
    words();
  });
  model.on("change:snapshot", () => { const i = spec.ids.indexOf(model.get("snapshot")); if (i >= 0) lwSet(model, { index: i }); });
  model.on("change:hovered", () => lwSet(model, { peek: model.get("hovered") ? point(Number(model.get("hovered"))) : {} }));
  draw();
};
