// The panel of a page without a kernel: as it stood; in the past what the commit after the moment did, and the one of it.
LW_REPLIES.controls = (model, spec) => {
  const block = (story) => {
    const picks = story[1], ids = Object.keys(picks), id = picks[model.get("opened")] ? model.get("opened") : ids[0];
    const more = ids.length > 1 ? [`and ${lwPlural(ids.length - 1, "bucket")} more`] : [];
    return [story[0], id === undefined ? [] : [...picks[id], ...more]];
  };
  const reply = () => {
    const width = lwFit(spec.widths, model.get("width")), at = model.get("snapshot"), words = { ...spec.words[width], at, past: [] };
    const stories = at != null && at < model.get("newest") && spec.past[at + 1] ? [spec.past[at + 1], spec.past[at]] : [];
    if (stories.length) Object.assign(words, { title: `After #${at}`, past: stories.filter(Boolean).map(block) });
    lwSet(model, { frame: { ...words, ...spec.frames[width] } });
  };
  for (const name of ["width", "snapshot", "opened"]) model.on("change:" + name, reply);
  reply();
};
