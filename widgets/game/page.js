// The game of a page without a kernel: the ticks that were recorded.
LW_REPLIES.game = (model, spec) => {
  const show = () => {
    const frames = spec.frames[lwFit(spec.widths, model.get("width"))], at = Math.min(model.get("tick"), frames.length - 1);
    lwSet(model, { recorded: spec.points.length - 1, frame: { ...spec.words, ...frames[at] } });
    lwSet(model, { now: spec.points[at] });
  };
  model.on("change:width", show);
  model.on("change:tick", show);
  show();
};
