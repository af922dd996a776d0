// The health of a page without a kernel: every colour of the state that was saved. At another moment the grid has
// its column; the verdict and the list need a kernel, and the page says whose they are.
LW_REPLIES.health = (model, spec) => {
  const saved = model.get("snapshot");
  const reply = () => {
    const width = lwFit(spec.widths, model.get("width")), at = model.get("snapshot");
    const past = at === saved ? {} : { subtitle: `verdict, numbers and list are of #${saved} · the grid is marked at #${at}` };
    lwSet(model, { frame: { ...spec.frames[width][model.get("colour_by")], ...past } });
  };
  for (const k of ["width", "colour_by", "snapshot"]) model.on("change:" + k, reply);
  reply();
};
