// The scenes of a page without a kernel.
LW_REPLIES.play = (model, spec) => {
  const reply = () => {
    const width = lwFit(spec.widths, model.get("width"));
    lwSet(model, { scenes: spec.scenes[width], frame: { ...spec.words[width] } });
  };
  model.on("change:width", reply);
  reply();
};
