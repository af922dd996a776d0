// A task of a page without a kernel: the right answers are in the file; a first wrong one gets the hint, a second one the answer.
LW_REPLIES.task = (model, spec) => {
  const same = (one, other) => {
    const sorted = (list) => (spec.frames[spec.widths[0]].open.kind === "order" ? list : [...list].sort());
    return JSON.stringify(Array.isArray(one) ? sorted(one) : one) === JSON.stringify(Array.isArray(other) ? sorted(other) : other);
  };
  const reply = () => {
    const frames = spec.frames[lwFit(spec.widths, model.get("width"))], part = model.get("part");
    if (part === "list") return lwSet(model, { frame: frames[""] });
    if (part === "veil") return lwSet(model, { frame: frames[String(Boolean(model.get("committed")))] });
    if (!model.get("committed")) return lwSet(model, { value: null, asked: 0, frame: frames.open });
    const value = model.get("value"), given = value != null && value !== "";
    if (given && spec.answers.some((answer) => same(answer, value))) return lwSet(model, { frame: frames.right });
    const wrong = frames.wrong, off = remark(value);
    lwSet(model, { frame: { ...wrong, verdict: { ...wrong.verdict, ...(given ? { yours: yours(value), remark: off, state: "wrong" } : {}) } } });
  };
  const yours = (value) => [["", [].concat(value).join(", ")]];
  const remark = (value) => (spec.remarks.find(([each]) => same(each, value)) || [0, spec.frames[spec.widths[0]].open.hint])[1];
  const ask = () => {
    const value = model.get("value"), asked = model.get("asked");
    if (!asked || model.get("committed")) return;
    if (asked >= spec.tries || spec.answers.some((answer) => same(answer, value))) return lwSet(model, { committed: true });
    const frames = spec.frames[lwFit(spec.widths, model.get("width"))];
    lwSet(model, { frame: { ...frames.open, verdict: { state: "again", yours: yours(value), remark: remark(value) } } });
  };
  model.on("change:width", () => {
    if (model.get("committed")) return reply();
    const value = model.get("value"), asked = model.get("asked"), verdict = (model.get("frame") || {}).verdict;
    reply();
    lwSet(model, { value, asked, frame: { ...model.get("frame"), verdict } });
  });
  model.on("change:asked", ask);
  model.on("change:committed", reply);
  reply();
};
