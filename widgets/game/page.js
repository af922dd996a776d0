// The game of a page without a kernel: the ticks and the moves that were recorded, each a point.
LW_REPLIES.game = (model, spec) => {
  const show = () => {
    const frames = spec.frames[lwFit(spec.widths, model.get("width"))], at = Math.min(model.get("at"), frames.length - 1);
    lwSet(model, { points: spec.points, frame: { ...spec.words, ...frames[at] }, tick: spec.points[at].tick });
    lwSet(model, { now: spec.points[at] });
  };
  model.on("change:width", show);
  model.on("change:at", show);
  show();
};
