// BucketAdvisor: a press on one of the numbers tried, or the arrows, show its buckets. Python draws all of it.
function renderBuckets({ model, el }) {
  const stage = lwStage(model, el, "buckets");
  const host = lwEl("div", { class: "lw-pic" });
  stage.body.append(host);
  const rows = () => [...host.querySelectorAll(".tried")];
  const pick = (row) => { if (row) lwSet(model, { buckets: Number(row.dataset.buckets) }); };
  const step = (by) => () => {
    const all = rows(), at = all.findIndex((row) => Number(row.dataset.buckets) === model.get("buckets"));
    pick(all[Math.min(Math.max(at + by, 0), all.length - 1)]);
  };
  function draw() {
    const frame = model.get("frame"), focused = host.contains(document.activeElement);
    stage.words(frame);
    if (frame.svg) stage.picture(host, frame.svg);
    for (const row of rows()) row.setAttribute("tabindex", row.getAttribute("aria-pressed") === "true" ? 0 : -1);
    if (focused) host.querySelector('.tried[tabindex="0"]')?.focus({ preventScroll: true });
    stage.root.dataset.n = String(rows().length);
    stage.say(frame.label || "");
  }
  host.addEventListener("click", (event) => pick(event.target.closest(".tried")));
  lwKeys(host, { ArrowUp: step(-1), ArrowDown: step(1) });
  stage.on("change:frame", draw);
  draw();
  return () => stage.off();
}
