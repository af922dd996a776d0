// TableHealth: cursor and hover over the grid, the list of the worst, and the strip that compacts those chosen.
const HEALTH_COLOURS = [["runs", "runs"], ["bytes", "bytes"], ["files", "files"], ["due", "over trigger"]];
function lwHealthBytes(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  while (n >= 1024 && at < 4) { n /= 1024; at += 1; }
  return at ? `${n.toPrecision(3)} ${units[at]}` : `${n} B`;
}
function renderHealth({ model, el }) {
  const stage = lwStage(model, el, "health");
  const shade = lwSegments("colour by", HEALTH_COLOURS, (v) => lwSet(model, { colour_by: v }));
  const host = lwEl("div", { class: "lw-pic", role: "listbox", "aria-multiselectable": "true", "aria-label": "buckets over snapshots, and the worst of them", tabindex: 0 });
  const send = (verb) => () => model.send({ verb });
  const due = lwButton("", "choose every bucket with a compaction due", send("choose_due"), { text: "Choose all due" });
  const clear = lwButton("", "choose none", () => lwSet(model, { chosen: [] }), { text: "Clear" });
  const go = lwButton("", "compact the buckets chosen, one commit a partition", send("compact"), { text: "Compact these", primary: true });
  const stop = lwButton("", "give up what is not committed", send("cancel"), { text: "Cancel" });
  const words = lwEl("span", { class: "lw-hint lw-health-says" });
  const strip = lwEl("div", { class: "lw-health-acts" }, due, clear, words, lwEl("span", { class: "lw-gap" }), stop, go);
  stage.tools.append(shade);
  stage.body.append(host, strip);
  const card = lwCard(stage);
  const frame = () => model.get("frame");
  let svg = null, mark = null, drawn;
  const plot = () => ((frame().meta || {}).plot);
  function column(snapshot) {
    const ends = frame().meta.ends, at = ends.findIndex((end) => end >= snapshot);
    return snapshot == null || at < 0 ? ends.length - 1 : at;
  }
  function cursor() {
    if (mark) mark.remove();
    mark = null;
    if (!svg || !plot()) return;
    const [left, top, pitch, tall] = plot(), x = left + (column(model.get("snapshot")) + 0.5) * pitch;
    mark = lwMark("path", { d: `M${x} ${frame().meta.strip}V${top + tall * frame().meta.rows + 3}`, stroke: "var(--lw-ink)", "stroke-width": 2, class: "cursor" });
    svg.append(mark);
  }
  function cell(event) {
    if (!svg || !plot()) return null;
    const [x, y] = lwPoint(svg, event), [left, top, pitch, tall] = plot(), m = frame().meta;
    const at = Math.floor((x - left) / pitch), row = Math.floor((y - top) / tall);
    return at >= 0 && at < m.ends.length && y >= m.strip && row < m.rows ? { at, row } : null;
  }
  function value(row, at) {
    const pairs = frame().meta.values[row];
    for (let i = 0; i < pairs.length; i += 2) { if ((at -= pairs[i + 1]) < 0) return pairs[i]; }
    return 0;
  }
  function hover(event) {
    const c = cell(event), bad = event.target.closest && event.target.closest(".bad");
    host.style.cursor = c || bad ? "pointer" : "";
    if (!c || c.row < 0) return card.hide();
    const m = frame().meta, n = value(c.row, c.at), unit = m.unit === "due" ? "runs" : m.unit;
    const from = c.at ? m.ends[c.at - 1] + 1 : null, to = m.ends[c.at];
    card.show(event, m.group > 1 ? `row ${c.row + 1}: ${m.group} buckets` : "", [
      [from != null && from < to ? `after #${to} (from #${from})` : `after #${to}`, unit === "bytes" ? lwHealthBytes(n) : `${n} ${unit}`],
    ]);
  }
  function toggle(id) {
    const chosen = model.get("chosen") || [];
    lwSet(model, { chosen: chosen.includes(id) ? chosen.filter((each) => each !== id) : [...chosen, id] });
  }
  // A workbench shows the bucket that is asked for.
  function open(id) {
    lwSet(model, { opened: id });
    stage.root.dispatchEvent(new CustomEvent("lw-open", { bubbles: true }));
  }
  host.addEventListener("pointermove", hover);
  host.addEventListener("pointerleave", () => card.hide());
  host.addEventListener("click", (event) => {
    const bad = event.target.closest(".bad");
    if (bad) {
      const box = bad.querySelector(".hit").getBoundingClientRect();
      if (!model.get("static") && event.clientX - box.left < 28) toggle(bad.dataset.bucket);
      else open(bad.dataset.bucket);
      return;
    }
    const c = cell(event);
    if (!c) return;
    if (c.row >= 0 && !model.get("static")) model.send({ verb: "open", row: c.row, column: c.at });
    else lwSet(model, { snapshot: frame().meta.ends[c.at] });
  });
  const move = (by) => () => {
    if (!plot()) return;
    const m = frame().meta, to = Math.min(Math.max(column(model.get("snapshot")) + by, 0), m.ends.length - 1);
    lwSet(model, { snapshot: m.ends[to] });
    stage.say("snapshot " + m.ends[to]);
  };
  const list = () => [...host.querySelectorAll(".bad")];
  const step = (by) => () => {
    const all = list(), at = all.findIndex((each) => each.dataset.bucket === model.get("opened"));
    const to = all[Math.min(Math.max(at + by, 0), all.length - 1)];
    if (to) { lwSet(model, { opened: to.dataset.bucket }); stage.say(to.getAttribute("aria-label")); }
  };
  const tick = () => { if (!model.get("static") && list().some((each) => each.dataset.bucket === model.get("opened"))) toggle(model.get("opened")); };
  lwKeys(host, { ArrowLeft: move(-1), ArrowRight: move(1), ArrowUp: step(-1), ArrowDown: step(1), " ": tick, Enter: () => { if (model.get("opened")) open(model.get("opened")); } });
  function acts() {
    const f = frame(), running = model.get("progress");
    strip.hidden = model.get("static") || !(f.due || f.estimate || f.says || f.busy);
    due.hidden = !f.due || f.busy;
    clear.hidden = !f.estimate || f.busy;
    go.hidden = !f.estimate || f.busy;
    go.disabled = due.disabled = !!f.off;
    stop.hidden = !f.busy;
    words.textContent = running || f.estimate && (f.off ? `${f.estimate} · ${f.off}` : f.estimate) || f.says || (f.off && f.due ? f.off : "");
    words.classList.toggle("lw-bad", !!f.failed && !running);
    words.title = words.textContent;
  }
  function draw() {
    const f = frame();
    stage.words(f);
    if (f.svg !== drawn) svg = f.svg ? stage.picture(host, f.svg) : null;
    drawn = f.svg;
    stage.root.dataset.n = String(list().length);
    shade.show(model.get("colour_by"));
    shade.hidden = !plot();
    cursor();
    acts();
    card.hide();
  }
  stage.on("change:frame", draw);
  stage.on("change:snapshot", cursor);
  stage.on("change:progress", acts);
  draw();
  return () => stage.off();
}
