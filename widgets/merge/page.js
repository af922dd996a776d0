// A merge in a page without a kernel: every step of the window was drawn beforehand.
LW_REPLIES.merge = (model, spec) => {
  const reply = () => {
    const width = lwFit(spec.widths, model.get("width"));
    lwSet(model, { frame: { ...spec.words[width], ...spec.frames[width][`${model.get("mode")}|${model.get("cursor")}`] } });
  };
  for (const name of ["width", "mode", "cursor"]) model.on("change:" + name, reply);
  reply();
};
