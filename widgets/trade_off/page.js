// The trade-off map of a page without a kernel: what every setting shows is in the file.
LW_REPLIES.trade_off = (model, spec) => {
  const width = () => lwFit(spec.widths, model.get("width"));
  const show = () => lwSet(model, { now: spec.points[width()][model.get("index")] || {} });
  const redraw = () => { lwSet(model, { frame: spec.frames[width()] }); show(); };
  model.on("change:width", redraw);
  model.on("change:index", show);
  redraw();
};
