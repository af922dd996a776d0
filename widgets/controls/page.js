// The panel of a page without a kernel: as it stood; in the past what the commit after the moment did.
LW_REPLIES.controls = (model, spec) => {
  const reply = () => {
    const width = lwFit(spec.widths, model.get("width")), at = model.get("snapshot"), words = { ...spec.words[width], at, past: null };
    const story = at != null && at < model.get("newest") ? spec.past[at + 1] : null;
    if (story) {
      const picks = story[1], ids = Object.keys(picks), id = picks[model.get("opened")] ? model.get("opened") : ids[0];
      const more = ids.length > 1 ? [`and ${lwPlural(ids.length - 1, "bucket")} more`] : [];
      Object.assign(words, { title: `After #${at}`, past: [story[0], id === undefined ? [] : [...picks[id], ...more]] });
    }
    lwSet(model, { frame: { ...words, ...spec.frames[width] } });
  };
  for (const name of ["width", "snapshot", "opened"]) model.on("change:" + name, reply);
  reply();
};
