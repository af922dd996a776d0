// A page without a kernel: a frame a table; which round is shown is what it was.
LW_REPLIES.tiering = (model, spec) => {
  const reply = () => {
    const width = lwFit(spec.widths, model.get("width")), frames = spec.frames[width], table = model.get("table");
    lwSet(model, { frame: { ...spec.words[width], ...(frames[table] || frames[spec.first]) } });
  };
  for (const name of ["width", "table"]) model.on("change:" + name, reply);
  reply();
};
