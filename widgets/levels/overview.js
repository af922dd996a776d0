// The overview of buckets at another moment: shade, ring and dot of each cell, bytes a partition, and the counts.
function levelsOverview(host, cells, sheet, by) {
  const byId = new Map(cells.map((c) => [c.id, c])), steps = sheet.fills.length, share = (part, c) => (c.rows ? part / c.rows : 0);
  const value = (c) => (by === "deletes" || by === "masked" ? share(c[by], c) : c[by]);
  const drawn = [...host.querySelectorAll(".cell")], seen = drawn.map((g) => byId.get(g.dataset.bucket)).filter(Boolean);
  const largest = by === "runs" ? sheet.stop : Math.max(...seen.map(value), 0), sums = new Map();
  for (const g of drawn) {
    const c = byId.get(g.dataset.bucket), box = g.querySelector(".box");
    g.querySelectorAll(".sign").forEach((sign) => sign.remove());
    g.style.visibility = c ? "" : "hidden";
    if (!c) continue;
    const [x, y, wide, tall] = ["x", "y", "width", "height"].map((name) => Number(box.getAttribute(name)));
    sums.set(x, { wide, bytes: ((sums.get(x) || {}).bytes || 0) + c.bytes });
    const step = Math.min(Math.trunc((largest ? value(c) / largest : 0) * steps), steps - 1);
    box.setAttribute("fill", sheet.fills[step]);
    const over = c.runs > sheet.trigger, stalls = c.runs > sheet.stop, ink = "var(--lw-compact)";
    if (over) {
      g.append(wide + 2 < 9 ? lwMark("rect", { class: "sign", x: x - 0.5, y: y - 4, width: wide + 1, height: 3, fill: ink, stroke: "none" })
        : lwMark("rect", { class: "sign", x: x - 2, y: y - 2, width: wide + 4, height: tall + 4, rx: 3, fill: "none", stroke: ink, "stroke-width": 2 }));
    }
    if (stalls) g.append(lwMark("circle", { class: "sign", cx: x + wide / 2, cy: y + tall / 2, r: Math.min(2.5, wide / 2 - 0.5), fill: sheet.inks[step], stroke: "none" }));
    const cut = c.id.lastIndexOf("/");
    g.querySelector("title").textContent = `${c.id.slice(0, cut) || "table"}, bucket ${c.id.slice(cut + 1)}: ${lwPlural(c.runs, "run")}, ${lwPlural(c.files, "file")}, ${lwBytes(c.bytes)}`
      + (over ? ", above the trigger" : "") + (stalls ? ", writers stall" : "");
  }
  const bars = host.querySelector(".sums"), set = (name, words) => { const node = host.querySelector("." + name); if (node) node.textContent = words; };
  const most = Math.max(...[...sums.values()].map((s) => s.bytes), 1), base = 54;
  if (bars) bars.setAttribute("d", [...sums].map(([x, s]) => { const tall = Math.max((40 * s.bytes) / most, 0.5); return `M${x} ${base}v${-tall}h${s.wide}v${tall}z`; }).join(""));
  const top = by === "deletes" || by === "masked" ? lwPercent(largest, 1) : by === "bytes" ? lwBytes(largest) : lwCount(largest);
  set("most", `max ${lwBytes(most)}`);
  set("range", `0 … ${top}${by === "runs" ? "+" : ""} ${{ deletes: "−D share", masked: "DV share", bytes: "" }[by] ?? by}`.trimEnd());
  set("above", `above trigger ${sheet.trigger}: ${lwPlural(seen.filter((c) => c.runs > sheet.trigger).length, "bucket")}`);
  set("stalls", `writers stall: ${seen.filter((c) => c.runs > sheet.stop).length}`);
}
// The buckets with most runs, then most bytes, at another moment: id, words and runs, as the kernel names them.
function levelsWorst(cells, most) {
  const order = (a, b) => b.runs - a.runs || b.bytes - a.bytes || a.id.localeCompare(b.id, "en", { numeric: true });
  const words = (id) => {
    const cut = id.lastIndexOf("/"), values = id.slice(0, cut).split("/").map((part) => part.slice(part.indexOf("=") + 1));
    return cut ? `${values.join("/")}/${id.slice(cut + 1)}` : `bucket ${id.slice(1)}`;
  };
  return [...cells].sort(order).slice(0, most).map((c) => [c.id, words(c.id), String(c.runs)]);
}
