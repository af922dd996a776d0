// A changelog in a page without a kernel: a frame a snapshot; of producers, a frame a key.
LW_REPLIES.changelog = (model, spec) => {
  const reply = () => {
    const width = lwFit(spec.widths, model.get("width")), frames = spec.frames[width], words = spec.words[width];
    const name = words.keys ? model.get("key") : String(model.get("snapshot"));
    const drawn = frames[name] || (model.get("frame").svg ? model.get("frame") : Object.values(frames)[0]);
    lwSet(model, { frame: { ...words, ...drawn } });
  };
  for (const name of ["width", "snapshot"]) model.on("change:" + name, reply);
  model.on("change:key", () => { if (spec.words[spec.widths[0]].keys) reply(); });
  reply();
};
