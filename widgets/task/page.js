// A task of a page without a kernel: the right answers are in the file; a wrong one gets the hint and the answer.
LW_REPLIES.task = (model, spec) => {
  const same = (one, other) => {
    const sorted = (list) => (spec.frames[spec.widths[0]].open.kind === "order" ? list : [...list].sort());
    return JSON.stringify(Array.isArray(one) ? sorted(one) : one) === JSON.stringify(Array.isArray(other) ? sorted(other) : other);
  };
  const reply = () => {
    const frames = spec.frames[lwFit(spec.widths, model.get("width"))], part = model.get("part");
    if (part === "list") return lwSet(model, { frame: frames[""] });
    if (part === "veil") return lwSet(model, { frame: frames[String(Boolean(model.get("committed")))] });
    if (!model.get("committed")) return lwSet(model, { value: null, frame: frames.open });
    const value = model.get("value"), given = value != null && value !== "";
    if (given && spec.answers.some((answer) => same(answer, value))) return lwSet(model, { frame: frames.right });
    const wrong = frames.wrong, yours = given ? [["", [].concat(value).join(", ")]] : wrong.verdict.yours;
    lwSet(model, { frame: { ...wrong, verdict: { ...wrong.verdict, yours, state: given ? "wrong" : "seen" } } });
  };
  model.on("change:width", () => { if (!model.get("committed")) { const kept = model.get("value"); reply(); lwSet(model, { value: kept }); } else reply(); });
  model.on("change:committed", reply);
  reply();
};
