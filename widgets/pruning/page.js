// The pruning explainer of a page without a kernel: its rules, its first buckets, and their files explained.
LW_REPLIES.pruning = (model, spec) => {
  const reply = () => {
    const width = lwFit(spec.widths, model.get("width")), frames = spec.frames[width];
    const bucket = frames.buckets[model.get("opened")], chosen = (model.get("selected") || [])[0];
    const panel = frames.panels[chosen] || frames.panels[spec.first[model.get("opened")]];
    const lost = !bucket && model.get("opened") || (!frames.panels[chosen] && chosen);
    const error = lost ? { what: "This part is not in the file.", text: String(lost), next: "Open the table with a kernel to see it." } : null;
    lwSet(model, { frame: { ...spec.words[width], columns: spec.columns, glance: spec.glance, rules: frames.rules[model.get("mode")], label: frames.label,
      ...(bucket || {}), ...(panel || {}), error } });
  };
  model.on("change:opened", () => { const first = spec.first[model.get("opened")]; if (first) lwSet(model, { selected: [first] }); reply(); });
  for (const k of ["width", "mode", "selected"]) model.on("change:" + k, reply);
  reply();
};
