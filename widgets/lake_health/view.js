// LakeHealth: a list of tables; a click marks one and opens its workbench below.
function renderLakeHealth({ model, el, host, signal }) {
  const stage = lwStage(model, el, "lake");
  const pic = lwEl("div", { class: "lw-pic", role: "listbox", "aria-label": "tables of the lake, the worst first", tabindex: 0 });
  const stop = lwButton("", "read no more tables", () => model.send({ verb: "stop" }), { text: "Stop" });
  const again = lwButton("", "read every table again", () => model.send({ verb: "refresh" }), { text: "Read again" });
  const progress = lwEl("span", { class: "lw-hint" });
  const trouble = lwEl("div", { class: "lw-error", role: "alert", hidden: true });
  const below = lwEl("div", { class: "lw-lake-bench" });
  stage.tools.append(progress, stop, again);
  stage.body.append(pic, trouble, below);
  const over = new AbortController();
  if (signal) signal.addEventListener("abort", () => over.abort());
  const still = () => model.get("static");
  const list = () => [...pic.querySelectorAll(".table")];
  function open(name) {
    lwSet(model, { table: name });
    if (!still()) model.send({ verb: "open", table: name });
  }
  pic.addEventListener("click", (event) => {
    const row = event.target.closest(".table");
    if (row) open(row.dataset.table);
  });
  const step = (by) => () => {
    const all = list(), at = all.findIndex((row) => row.dataset.table === model.get("table"));
    const to = all[Math.min(Math.max(at + by, 0), all.length - 1)];
    if (to) { lwSet(model, { table: to.dataset.table }); stage.say(to.getAttribute("aria-label")); }
  };
  lwKeys(pic, { ArrowUp: step(-1), ArrowDown: step(1), Enter: () => { if (model.get("table")) open(model.get("table")); } });
  let shown = "";
  async function bench() {
    const ref = model.get("bench") || "";
    if (ref === shown) return;
    shown = ref;
    below.replaceChildren();
    if (!ref) return;
    const place = lwEl("div", {});
    below.append(place);
    const child = await host.getWidget(ref);
    if (!over.signal.aborted && ref === shown) await child.render({ el: place, signal: over.signal });
  }
  function draw() {
    const f = model.get("frame");
    stage.words(f);
    if (f.svg) stage.picture(pic, f.svg);
    stage.root.dataset.n = String(list().length);
    stop.hidden = still() || !f.reading;
    again.hidden = still() || f.reading;
    progress.textContent = f.progress || "";
    trouble.hidden = !f.trouble;
    trouble.replaceChildren(lwEl("b", {}, "✕ This table could not be opened."), lwEl("code", {}, f.trouble || ""));
  }
  stage.on("change:frame", draw);
  stage.on("change:bench", bench);
  draw();
  bench();
  return () => { over.abort(); stage.off(); };
}
