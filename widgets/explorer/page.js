// The explorer of a page without a kernel: the first page of each open node, the row groups of the shown files.
LW_REPLIES.explorer = (model, spec) => {
  const reply = () => {
    const width = lwFit(spec.widths, model.get("width")), frames = spec.frames[width];
    const node = frames.nodes[model.get("path")], name = (model.get("selected") || [])[0] || "";
    const lost = !node && Object.keys(frames.nodes).length ? model.get("path") : name && frames.details[name] === undefined ? name : "";
    const error = lost ? { what: "This part is not in the file.", text: String(lost), next: "Open the table with a kernel to see it." } : null;
    lwSet(model, { frame: { ...model.get("frame"), ...spec.words[width], ...frames.base, ...(node || {}), detail: frames.details[name] || "", error } });
  };
  for (const k of ["width", "path", "selected"]) model.on("change:" + k, reply);
  reply();
};
