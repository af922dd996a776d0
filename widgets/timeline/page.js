// The timeline of a page without a kernel.
LW_REPLIES.timeline = (model, spec) => {
  let shown = "";
  const reply = () => {
    const page = spec.paged ? Math.floor(model.get("index") / spec.page) : 0;
    const width = lwFit(spec.widths, model.get("width")), frames = spec.frames[width];
    if (shown === `${width} ${page}`) return;
    shown = `${width} ${page}`;
    lwSet(model, { frame: { ...spec.words[width], ...(frames[page] || frames[0]) } });
  };
  model.on("change:width", reply);
  model.on("change:index", () => { lwSet(model, { snapshot: spec.ids[model.get("index")], selected: [spec.ids[model.get("index")]] }); reply(); });
  model.on("change:snapshot", () => { const i = spec.ids.indexOf(model.get("snapshot")); if (i >= 0) lwSet(model, { index: i }); });
  model.on("change:jump", () => {
    const wanted = String(model.get("jump")).trim(), tag = spec.tags[wanted];
    const i = spec.ids.indexOf(tag === undefined ? Number(wanted.replace(/^#/, "")) : tag);
    if (i >= 0) lwSet(model, { index: i });
  });
  reply();
};
