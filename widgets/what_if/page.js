// The what-if of a page without a kernel: lanes and charts of all commits, levels of those that are in the file.
LW_REPLIES.what_if = (model, spec) => {
  const width = () => lwFit(spec.widths, model.get("width"));
  const show = () => {
    const i = model.get("index"), drawn = spec.levels[width()][i - spec.first];
    const none = { what: "These levels are not in the file.", text: `levels of #${spec.ids[i]}`, next: "Open the table with a kernel." };
    lwSet(model, { now: { index: i, snapshot: spec.ids[i], says: spec.says[i] || "", levels: drawn || (model.get("now") || {}).levels } });
    lwSet(model, { frame: { ...spec.frames[width()], error: drawn || !spec.ids.length ? null : none } });
  };
  model.on("change:width", show);
  model.on("change:index", () => {
    const id = spec.ids[model.get("index")];
    if (id !== undefined) lwSet(model, { snapshot: id, selected: [id] });
    show();
  });
  model.on("change:snapshot", () => {
    const shot = model.get("snapshot"), i = spec.ids.filter((id) => id <= shot).length - 1;
    if (i >= 0 && spec.ids[model.get("index")] !== spec.ids[i]) lwSet(model, { index: i });
  });
  model.on("change:hovered", () => lwSet(model, { peek: (model.get("hovered") && spec.peeks[Number(model.get("hovered"))]) || {} }));
  show();
};
