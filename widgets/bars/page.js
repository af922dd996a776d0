// The bars of a page without a kernel: a frame for each group, of many groups for those around the one shown.
LW_REPLIES.bars = (model, spec) => {
  const reply = () => {
    const width = lwFit(spec.widths, model.get("width"));
    const at = Math.min(Math.max(model.get("index"), spec.first), spec.last);
    lwSet(model, { frame: spec.frames[width][at] || {} });
  };
  for (const name of ["width", "index"]) model.on("change:" + name, reply);
  reply();
};
