// The trade-off map of a page without a kernel: what every setting shows is in the file, for each workload that was
// simulated.
LW_REPLIES.trade_off = (model, spec) => {
  const width = () => lwFit(spec.widths, model.get("width")), map = () => spec.maps[model.get("workload")];
  const show = () => lwSet(model, { now: map().points[width()][model.get("index")] || {} });
  const redraw = () => { lwSet(model, { known: Object.keys(spec.maps), frame: map().frames[width()] }); show(); };
  model.on("change:width", redraw);
  model.on("change:workload", redraw);
  model.on("change:index", show);
  redraw();
};
