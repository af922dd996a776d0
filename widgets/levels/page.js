// The levels of a page without a kernel.
LW_REPLIES.levels = (model, spec) => {
  const reply = () => {
    const width = lwFit(spec.widths, model.get("width")), shot = model.get("snapshot");
    const frames = spec.frames[width], base = frames.base[[shot, model.get("colour_by")].join("|")] || {};
    const one = frames.buckets[[shot, model.get("opened"), model.get("mode")].join("|")];
    const missing = { what: "This part is not in the file.", text: `levels of #${shot}, ${model.get("opened") || "the bucket"}`, next: "Open the table with a kernel, or export more snapshots." };
    lwSet(model, { frame: one ? { ...base, ...one, error: null } : { ...model.get("frame"), ...base, error: missing } });
  };
  for (const k of ["width", "snapshot", "opened", "mode", "colour_by"]) model.on("change:" + k, reply);
  reply();
};
