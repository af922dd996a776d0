// The advice of a page without a kernel: a frame for each number that was tried.
LW_REPLIES.buckets = (model, spec) => {
  const reply = () => {
    const width = lwFit(spec.widths, model.get("width"));
    lwSet(model, { frame: { ...spec.words[width], ...spec.frames[width][model.get("buckets")] } });
  };
  for (const name of ["width", "buckets"]) model.on("change:" + name, reply);
  reply();
};
