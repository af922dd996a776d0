// The game of a page without a kernel: the ticks and the moves that were recorded, each a point.
LW_REPLIES.game = (model, spec) => {
  const show = () => {
    const frames = spec.frames[lwFit(spec.widths, model.get("width"))], at = Math.min(model.get("at"), frames.length - 1);
    lwSet(model, { points: spec.points, frame: { ...spec.words, ...frames[at] }, tick: spec.points[at].tick });
    lwSet(model, { now: spec.points[at] });
  };
  model.on("change:width", show);
  model.on("change:at", show);
  show();
};
// Where Python runs in the page it has no clock: the page's own sends the ticks.
LW_LIVE.game = (model) => {
  const send = model.send;
  let timer = null;
  const again = () => { timer = setTimeout(async () => {
    await send({ verb: "tick" });
    if ((model.get("now") || {}).over) lwSet(model, { playing: false });
    if (model.get("playing")) again();
  }, GAME_TICK / model.get("pace")); };
  model.local("playing");
  model.on("change:playing", () => { clearTimeout(timer); if (model.get("playing")) again(); });
  model.send = (content) => { if (content.verb === "restart") lwSet(model, { playing: false }); return send(content); };
};
