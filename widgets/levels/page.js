// The levels of a page without a kernel: the present was drawn beforehand, all other moments come from the edits.
LW_REPLIES.levels = (model, spec) => {
  const reply = () => {
    const f = spec.frames[lwFit(spec.widths, model.get("width"))];
    const of = [...f.about.of];
    of[2] = model.get("mode");
    lwSet(model, { frame: { ...f.above[model.get("colour_by")], ...f.one[model.get("mode")], ...f.about, of } });
  };
  const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  if (spec.edits[0]) lwSet(model, { edits: bytes(spec.edits[0]), tail: bytes(spec.edits[1]) });
  for (const k of ["width", "mode", "colour_by"]) model.on("change:" + k, reply);
  reply();
};
