// The levels of a page without a kernel: the present was drawn beforehand, and what only a tag keeps; all other
// moments come from the edits.
LW_REPLIES.levels = (model, spec) => {
  const reply = () => {
    const f = spec.frames[lwFit(spec.widths, model.get("width"))], mode = model.get("mode"), at = model.get("snapshot");
    const kept = f.kept[at], [, , , ...rest] = f.about.of, place = kept ? model.get("opened") : f.about.of[1];
    const of = [kept ? at : f.about.of[0], place, mode, ...rest];
    lwSet(model, { frame: { ...f.above[model.get("colour_by")], ...(kept ? { ...kept.one[mode], ...kept.words } : f.one[mode]), ...f.about, of } });
  };
  const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  if (spec.edits[0]) lwSet(model, { edits: bytes(spec.edits[0]), tail: bytes(spec.edits[1]) });
  for (const k of ["width", "mode", "colour_by", "snapshot"]) model.on("change:" + k, reply);
  reply();
};
