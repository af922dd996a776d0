// The health of a page without a kernel: every colour of the newest state.
LW_REPLIES.health = (model, spec) => {
  const reply = () => {
    const width = lwFit(spec.widths, model.get("width"));
    lwSet(model, { frame: spec.frames[width][model.get("colour_by")] });
  };
  for (const k of ["width", "colour_by"]) model.on("change:" + k, reply);
  reply();
};
