// The levels of any moment, drawn here from the history's facts: what figure.py, layout.py and boxes.py draw of the
// same files (a test compares the boxes). Only what needs no rule is drawn: the next compaction is in Python's frames.
const LV = { margin: 16, left: 96, top: 8, strip: 42, axis: 19, legend: 20, most: 18, narrowest: 3, sliver: 1e-6 };
const LV_SIZES = [[2 ** 27, "≥ 128 MiB"], [2 ** 24, "16–128 MiB"], [2 ** 20, "1–16 MiB"], [0, "< 1 MiB"]];
const LV_LANES = [[3, 34, 48], [5, 28, 38], [8, 20, 25], [12, 18, 23], [16, 16, 22], [24, 14, 19], [Infinity, 8, 10]]; // as in layout.py
const lvNum = (v) => String(Number(v.toFixed(1)));
const lvVar = (name) => `var(--lw-${name})`;
function lvTag(name, attrs, inner = "") {
  const text = Object.entries(attrs).filter(([, v]) => v != null).map(([k, v]) => ` ${k}="${typeof v === "number" ? lvNum(v) : v}"`).join("");
  return inner ? `<${name}${text}>${inner}</${name}>` : `<${name}${text}/>`;
}
const lvRect = (x, y, width, height, attrs) => lvTag("rect", { x, y, width: Math.max(width, 0), height: Math.max(height, 0), ...attrs });
const lvLine = (x1, y1, x2, y2, stroke = "line", attrs = {}) => lvTag("line", { x1, y1, x2, y2, stroke: lvVar(stroke), ...attrs });
const lvText = (x, y, words, { size = 12, fill = "ink2", weight, anchor } = {}) => (words === "" ? "" : lvTag("text", {
  x, y, "font-size": size === 12 ? null : size, fill: fill.includes("(") ? fill : lvVar(fill), "font-weight": weight, "text-anchor": anchor }, lwEsc(words)));
function lvWide(words, size = 12, bold = false) {
  let em = 0;
  for (const c of words) {
    em += "iljI.,:;'|!·".includes(c) ? 0.36 : "mwMW@%≈→…—".includes(c) ? 0.98 : c === " " ? 0.34 : /\d/.test(c) ? 0.64
      : c !== c.toLowerCase() ? 0.7 : c.codePointAt(0) < 0x2e80 ? 0.62 : 1;
  }
  return em * size * (bold ? 1.1 : 1);
}
// The files of the moment with their place on the bucket's axis, 0 … 1.
function lvFiles(history, at, place) {
  const f = history.facts, axis = history.axes[place];
  let least = Infinity, most = -Infinity;
  for (const i of at) { least = Math.min(least, f.low[i]); most = Math.max(most, f.high[i]); }
  if (axis) [least, most] = axis;
  const span = most - least, share = (v) => (Number.isNaN(v) ? v : span > 0 ? (v - least) / span : 0.5);
  const first = Math.min(...at.map((i) => f.min_sequence[i])), last = Math.max(...at.map((i) => f.max_sequence[i]));
  const long = Math.max(last - first, 1), clip = (v) => Math.min(Math.max(v, 0), 1);
  const ends = (v, absent) => (Number.isNaN(v) ? absent : clip(v));
  return at.map((i) => ({
    i, name: f.names[i], level: f.level[i], bytes: f.bytes[i], rows: f.rows[i], deletes: f.deletes[i], masked: f.masked[i],
    lo: ends(share(f.low[i]), 0), hi: ends(share(f.high[i]), 1), low: f.low_keys[i], high: f.high_keys[i],
    sequence: [f.min_sequence[i], f.max_sequence[i]], source: f.sources[i],
    origin: f.origin[i] >= 0 ? `#${f.origin[i]}` : f.created[i] >= 0 ? lwClock(f.created[i]) : "–",
    age: clip((last - (f.min_sequence[i] + f.max_sequence[i]) / 2) / long),
  }));
}
// The rows that a bucket keeps in the past, so that none moves (as in layout.py): level-0 rows, levels it ever used.
const lvKnown = new WeakMap();
function lvRows(history, snapshot, place, stop) {
  if (snapshot === history.last) return { slots: 0, used: new Set() };
  if (!lvKnown.has(history)) lvKnown.set(history, new Map());
  const kept = lvKnown.get(history);
  if (kept.has(place)) return kept.get(place);
  const f = history.facts, mine = history.places.indexOf(place), used = new Set(), turns = [];
  for (let i = 0; i < f.level.length; i++) {
    if (f.place[i] !== mine) continue;
    used.add(f.level[i]);
    if (!f.level[i]) turns.push([f.added[i], 1], [f.removed[i] || Infinity, -1]);
  }
  let now = 0, most = 0;
  for (const [, by] of turns.sort((a, b) => a[0] - b[0] || a[1] - b[1])) { now += by; most = Math.max(most, now); }
  const lanes = { slots: Math.min(most, stop), used };
  kept.set(place, lanes);
  return lanes;
}
function lvLanes(files, keyed, { num_levels, kept }) {
  if (!keyed) {
    const sized = [...files].sort((a, b) => b.bytes - a.bytes);
    return LV_SIZES.map(([least, note], n) => ({ level: 0, label: "", note, files: sized.filter((f) => f.bytes >= least && (!n || f.bytes < LV_SIZES[n - 1][0])), merged: 0 }));
  }
  const zero = files.filter((f) => !f.level), lanes = [];
  const slots = zero.length > LV.most ? LV.most : Math.max(kept.slots, zero.length, 1);
  for (let n = 0; n < slots; n++) {
    const rest = zero.length > LV.most && n === slots - 1;
    const some = rest ? zero.slice(n).sort((a, b) => a.lo - b.lo || a.hi - b.hi) : zero.slice(n, n + 1);
    const note = rest ? `+${lwCount(some.length)}` : some.length ? some[0].origin : n ? "" : "empty";
    lanes.push({ level: 0, label: n ? "" : "L0", note, files: some, merged: rest ? some.length : 0 });
  }
  const levels = Math.max(num_levels, ...files.map((f) => f.level + 1));
  for (let level = 1; level < levels; level++) {
    const some = files.filter((f) => f.level === level).sort((a, b) => a.lo - b.lo || a.hi - b.hi);
    const last = lanes[lanes.length - 1], foldable = (l) => !l.files.length && !kept.used.has(l.level);
    // Neighbouring levels without files are one row.
    if (files.length && foldable(last) && foldable({ level, files: some })) last.label = `${last.label.split("–")[0]}–L${level}`;
    else lanes.push({ level, label: `L${level}`, note: some.length ? lwPlural(some.length, "file") : "empty", files: some, merged: 0 });
  }
  return lanes;
}
// Where the number of runs to read changes, and what it is from there on.
function lvSteps(files) {
  const change = new Map(), add = (x, by) => change.set(x, (change.get(x) || 0) + by), seen = new Set();
  for (const f of files) {
    let { lo, hi } = f;
    if (hi <= lo) {
      const inside = f.level && files.some((o) => o !== f && o.level === f.level && o.hi > o.lo && o.lo <= lo && o.hi >= lo);
      if (inside || (f.level && seen.has(`${f.level}|${lo}`))) continue;
      seen.add(`${f.level}|${lo}`);
      [lo, hi] = [Math.max(lo - LV.sliver, 0), Math.min(lo + LV.sliver, 1)];
    }
    add(lo, 1); add(hi, -1);
  }
  let runs = 0;
  const steps = [];
  for (const [x, by] of [...change].sort((a, b) => a[0] - b[0])) {
    runs += by;
    if (!steps.length || steps[steps.length - 1][1] !== runs) steps.push([x, runs]);
  }
  return steps;
}
function lvTicks(files, keyed, view) {
  if (!keyed || !files.length) return [];
  const number = (text) => { const m = /^\[?(-?[0-9]+(?:\.[0-9]+)?)/.exec(text || ""); return m ? Number(m[1]) : NaN; };
  const left = files.reduce((a, b) => (b.lo < a.lo ? b : a)), right = files.reduce((a, b) => (b.hi > a.hi ? b : a));
  const ends = [[left.lo, left.low], [right.hi, right.high]].filter(([, t]) => t != null);
  const points = files.flatMap((f) => [[f.lo, number(f.low)], [f.hi, number(f.high)]]);
  const slope = (number(right.high) - number(left.low)) / (right.hi - left.lo), start = number(left.low) - slope * left.lo;
  if (!(slope > 0) || points.some(([x, v]) => !(Math.abs(start + slope * x - v) <= 0.005 * slope))) {
    return ends.filter(([x]) => x >= view[0] - 1e-9 && x <= view[1] + 1e-9).map(([x, t]) => [x, lwKey(t)]);
  }
  const [low, high] = view.map((x) => start + slope * x), span = high - low, power = 10 ** Math.floor(Math.log10(span));
  let step = [0.1, 0.2, 0.5, 1, 2].map((s) => s * power).find((s) => span / s <= 8);
  if (points.every(([, v]) => v === Math.round(v))) step = Math.max(step, 1);
  const near = 1e-6 * span, largest = Math.max(Math.abs(low), Math.abs(high)), ticks = [];
  const words = (v) => {
    for (const [unit, scale, needed] of [["M", 1e6, 1e6], ["k", 1e3, 1e4]]) {
      if (largest >= needed && step >= 0.05 * scale && v) return `${Number((v / scale).toPrecision(10))} ${unit}`.replace("-", "−");
    }
    const [whole, part] = String(Number(v.toPrecision(10))).split(".");
    return (lwCount(Number(whole)) + (part ? `.${part}` : "")).replace("-", "−");
  };
  for (let n = Math.ceil((low - near) / step); n <= Math.floor((high + near) / step); n++) ticks.push([(n * step - start) / slope, words(n * step)]);
  return ticks;
}
// What hover and selection say of a file, from its facts.
const lvCard = (f) => ({
  name: f.name, short: lwFileName(f.name), level: f.level, lane: f.lane, run: f.run, bytes: lwBytes(f.bytes), rows: lwCount(f.rows),
  keys: f.min_key == null ? "–" : `${lwKey(f.min_key)} … ${lwKey(f.max_key)}`, from: [f.origin, f.source].filter(Boolean).join(" "),
  sequence: f.sequence.map(lwCount).join(" … "), deletes: f.deletes ? `${lwCount(f.deletes)} (${lwPercent(f.deletes, f.rows)})` : "0",
  masked: f.masked == null ? "–" : `${lwCount(f.masked)} rows (${lwPercent(f.masked, f.rows)})`, lo: f.lo, hi: f.hi,
  next: f.planned ? "input of the next compaction" : "",
});
// What is said of the bucket where no file is selected.
function lvBucket(b) {
  const words = lvCard(b), keyed = b.runs != null;
  return { name: b.name, facts: [...(keyed ? [["runs", lwCount(b.runs)]] : []), ["files", lwCount(b.files)], ["size", words.bytes], ["rows", words.rows],
    ...(keyed ? [["keys", words.keys]] : []), ...["deletes", "masked", "sequence"].map((name) => [name, words[name]])] };
}
// One bucket at one moment: { svg, label, meta, cards, words }.
function levelsPicture(history, snapshot, place, sheet, { width, mode, view, fill_by }) {
  const files = lvFiles(history, history.at(snapshot, place), place);
  const keyed = !files.length || files.some((f) => f.low != null), kept = lvRows(history, snapshot, place, sheet.stop);
  const lanes = lvLanes(files, keyed, { num_levels: sheet.num_levels, kept });
  const shownMode = keyed ? mode : "bytes", [low, high] = shownMode === "keys" && view.length === 2 ? view : [0, 1];
  const [, tall, pitch] = LV_LANES.find(([most]) => lanes.length <= most);
  const labels = lanes.length <= 24, gutter = width >= 700 ? 112 : 78, left = LV.margin + LV.left, right = width - LV.margin - gutter;
  const px = (v) => left + ((v - low) / (high - low)) * (right - left), y = (n) => LV.top + n * pitch;
  const size = (lane) => lane.files.reduce((all, f) => all + f.bytes, 0), largest = Math.max(...lanes.map(size), 0);
  const bottom = y(lanes.length) + 6, parts = [], cards = [], binned = [];
  const ticks = lvTicks(files, keyed, [low, high]);
  if (shownMode === "keys") for (const [x] of ticks) { const at = lwEven(px(x)) + 0.5; parts.push(lvLine(at, LV.top - 4, at, bottom)); }
  lanes.forEach((lane, n) => {
    const middle = y(n) + tall / 2 + 0.5;
    if (!lane.files.length) parts.push(lvLine(left, middle, right, middle));
  });
  if (keyed) {
    const at = lwEven(y(lanes.filter((l) => !l.level).length) - (pitch - tall) / 2) + 0.5;
    parts.push(lvLine(LV.margin, at, right + gutter, at, "line2", { "stroke-dasharray": "1 3" }));
  }
  const colours = (f) => { const n = fill_by === "level" ? f.level : Math.min(Math.floor(f.age * 6), 5); return [sheet.fills[fill_by][n], sheet.inks[fill_by][n]]; };
  const drawBox = (f, n, x, end) => {
    const bx = lwEven(Math.min(x, right - 3)) + 0.5, by = y(n) + 0.5, wide = Math.max(lwEven(end) - lwEven(x) - 2, 2), high = tall - 1;
    const [fill, ink] = colours(f), many = f.rows > 0 && f.deletes * 5 >= f.rows, words = lwBytes(f.bytes), needs = lvWide(words);
    let inner = lvRect(bx, by, wide, high, { rx: wide > 6 ? 2 : null, fill, stroke: lvVar("edge"), class: "box" });
    if (many) inner += lvRect(bx, by, wide, high, { rx: 2, fill: "url(#lw-minus)", "fill-opacity": "0.55" });
    if (labels && needs + 12 + (f.masked >= 0 ? 9 : 0) <= wide) {
      if (many) inner += lvRect(bx + 4, by + 2, needs + 8, high - 4, { rx: 2, fill });
      inner += lvText(bx + 8, by + high / 2 + 4.5, words, { fill: ink });
    }
    if (f.masked >= 0 && wide >= 14 && high >= 8) {
      const fold = Math.min(9, high - 2), fx = bx + wide;
      inner += lvTag("path", { d: `M${lvNum(fx - fold)} ${lvNum(by - 1)}H${lvNum(fx + 1)}V${lvNum(by + fold)}z`, fill: lvVar("bg") })
        + lvTag("path", { d: `M${lvNum(fx - fold)} ${lvNum(by)}V${lvNum(by + fold)}H${lvNum(fx)}z`, fill: lvVar("l0"), stroke: lvVar("edge") });
    }
    const says = [`level ${f.level}`, words];
    if (f.low != null) says.push(`keys ${lwKey(f.low)} to ${lwKey(f.high)}`);
    if (f.deletes) says.push(`${lwCount(f.deletes)} deletes`);
    if (f.masked >= 0) says.push(`deletion vector ${lwCount(f.masked)}`);
    cards.push({ ...f, lane: n, run: f.level ? `L${f.level}` : lanes[n].note, masked: f.masked < 0 ? null : f.masked, min_key: f.low, max_key: f.high });
    return `<g class="file" data-name="${lwEsc(f.name)}" role="gridcell" aria-label="${lwEsc(says.join(", "))}">${inner}</g>`;
  };
  const columns = (lane, n, spans) => {
    const places = Math.floor(right - left), change = new Int32Array(places + 1);
    for (const [, x, end] of spans) {
      const begin = Math.min(Math.max(Math.trunc(x - left), 0), places - 1);
      change[begin] += 1; change[Math.min(Math.max(Math.ceil(end - left), begin + 1), places)] -= 1;
    }
    const counts = [];
    for (let i = 0, sum = 0; i < places; i++) counts.push(sum += change[i]);
    for (let i = 0; i < places; i += 4) { const top = Math.max(...counts.slice(i, i + 4)); counts.fill(top, i, Math.min(i + 4, places)); }
    const most = Math.max(...counts, 1), floor = y(n) + tall;
    let d = "";
    for (let i = 0; i < places;) {
      let j = i;
      while (j < places && counts[j] === counts[i]) j++;
      const high = Math.round((tall * counts[i] * 10) / most) / 10;
      if (high) d += `M${lvNum(left + i)} ${lvNum(floor)}v${lvNum(-high)}h${j - i}v${lvNum(high)}z`;
      i = j;
    }
    const what = lane.merged ? lwPlural(lane.merged, "older run") : lwPlural(spans.length, "file");
    const words = `${what}, up to ${lwCount(most)} a pixel${lane.merged || !keyed ? "" : ": zoom for boxes"}`;
    let drawn = lvTag("path", { d, fill: sheet.fills.level[lane.level], stroke: lvVar("edge"), "stroke-width": "0.5" });
    if (labels) {
      const at = y(n) + tall / 2, wide = lvWide(words, 11) + 10, after = Math.max(...spans.map((s) => s[2])) + 4;
      const x = after + wide < right ? after : left + 6;
      drawn += lvRect(x, at - 8, wide, 16, { rx: 2, fill: lvVar("bg") }) + lvText(x + 5, at + 4, words, { size: 11 });
    }
    return `<g class="columns" aria-label="${lwEsc(words)}">${drawn}</g>`;
  };
  lanes.forEach((lane, n) => {
    let sum = 0;
    const spans = [];
    for (const f of lane.files) {
      const [from, to] = shownMode === "keys" ? [f.lo, f.hi] : [sum / largest, (sum + f.bytes) / largest];
      sum += f.bytes;
      if (to >= low && from <= high) spans.push([f, px(Math.max(from, low)), px(Math.min(to, high))]);
    }
    const middle = y(n) + tall / 2 + 4, widths = spans.map(([, x, end]) => end - x).sort((a, b) => a - b), half = widths.length >> 1;
    const median = widths.length % 2 ? widths[half] : (widths[half - 1] + widths[half]) / 2;
    const dense = lane.merged || spans.length * LV.narrowest > right - left || (spans.length > 40 && median < LV.narrowest);
    if (dense) binned.push(n);
    if (!labels) parts.push(lane.label && (!lane.level || n === lanes.length - 1) ? lvText(LV.margin, y(n) + 8, lane.label, { size: 11 }) : "");
    else {
      const note = keyed || !lane.files.length ? lane.note : `${lane.note} · ${lwCount(lane.files.length)}`;
      parts.push(lvText(LV.margin, middle, lane.label, { size: lane.label.includes("–") ? 12 : 13, weight: 600, fill: "ink" }),
        lvText(LV.margin + (keyed ? Math.max(28, 0.9 * lvWide(lane.label, 12, true) + 5) : 0), middle, note, { size: 11, fill: lane.files.length ? "ink2" : "ink3" }));
      if (lane.files.length) {
        parts.push(lvText(right + 12, middle, lwBytes(size(lane)), { fill: "ink" }));
        if (gutter > 100) {
          const bar = right + gutter - 28, edge = { stroke: lvVar("edge"), "stroke-width": "0.5" };
          parts.push(lvRect(bar, middle - 7, 26, 6, { rx: 1, fill: lvVar("line") }),
            lvRect(bar, middle - 7, Math.max((26 * size(lane)) / largest, 1), 6, { rx: 1, fill: sheet.fills.level[lane.level], ...edge }));
        }
      }
    }
    const drawn = dense ? columns(lane, n, spans) : spans.map(([f, x, end]) => drawBox(f, n, x, end)).join("");
    if (drawn) parts.push(lvTag("g", { role: "row", "aria-label": lwEsc(`${lane.label || "L0"} ${lane.note}`.trim()) }, drawn));
  });
  const top = bottom + 8, runs = keyed ? lanes.reduce((all, l) => all + (l.merged || (l.files.length ? 1 : 0)), 0) : files.length;
  if (!files.length) parts.push(lvText(left + 12, bottom - 20, "Nothing in this bucket yet.", { fill: "ink", weight: 600 }));
  if (shownMode === "keys") parts.push(lvStrip(lvSteps(files), runs, sheet, { top, left, right, low, high, px }));
  const strip = keyed ? LV.strip : 0;
  const shown = shownMode === "keys" ? ticks : largest ? [0, 0.25, 0.5, 0.75, 1].map((s) => [s, lwBytes(lwEven(s * largest))]) : [];
  let end = -1e9;
  for (const [x, words] of shown) {
    const wide = lvWide(words, 11), from = Math.min(Math.max(px(x) - wide / 2, left - 8), right + 8 - wide);
    if (from > end + 8) { parts.push(lvText(from, top + strip + 12, words, { size: 11 })); end = from + wide; }
  }
  const [legend, lines] = sheet.legends[keyed ? fill_by : "none"], height = top + strip + LV.axis + 8 + LV.legend * lines;
  parts.push(`<g transform="translate(0 ${lvNum(top + strip + LV.axis + 18)})">${legend}</g>`);
  const box = `width="${lvNum(width)}" height="${lvNum(height)}" style="max-width:${Math.round(width * 1.05)}px" viewBox="0 0 ${lvNum(width)} ${lvNum(height)}"`;
  const many = keyed ? lwPlural(runs, "sorted run") : lwPlural(files.length, "file"), total = lwBytes(files.reduce((all, f) => all + f.bytes, 0));
  const cut = place.lastIndexOf("/"), where = `${cut > 0 ? `${place.slice(0, cut)} · ` : ""}bucket ${place.slice(cut + 1)}`;
  const sum = (name) => files.reduce((all, f) => all + Math.max(f[name], 0), 0);
  const bucket = () => ({
    name: where, runs: keyed ? runs : null, files: files.length, bytes: sum("bytes"), rows: sum("rows"), deletes: sum("deletes"), masked: sum("masked") || null,
    min_key: files.reduce((a, b) => (b.lo < a.lo ? b : a)).low, max_key: files.reduce((a, b) => (b.hi > a.hi ? b : a)).high,
    sequence: [Math.min(...files.map((f) => f.sequence[0])), Math.max(...files.map((f) => f.sequence[1]))],
  });
  return {
    bucket: files.length ? bucket() : {},
    svg: `<svg xmlns="http://www.w3.org/2000/svg" font-size="12" ${box}>${sheet.hatch}${parts.join("")}</svg>`,
    label: `Levels at #${snapshot}, ${where}: ${many}, ${total}`,
    meta: { plot: [left, LV.top, right - left, bottom - LV.top], axis: [top + strip - 6, LV.axis + 8], view: [low, high], lanes: [LV.top, pitch], binned },
    cards, keyed, where, runs, files: files.length, many, total,
    opened: [where, lwPlural(files.length, "file"), ...(keyed ? [lwPlural(runs, "run")] : []), total].join(" · "),
  };
}
// How many runs a reader opens at each key; the scale is fixed to the stop trigger.
function lvStrip(steps, runs, sheet, { top, left, right, low, high, px }) {
  const bottom = top + LV.strip - 8, parts = [lvText(LV.margin, bottom - 14, "runs to read", { size: 11 }), lvText(LV.margin, bottom, "per key", { size: 11 })];
  if (!steps.length) return parts.join("") + lvLine(left, bottom, right, bottom, "line2");
  const plateaus = [];
  steps.forEach(([x, count], n) => {
    const until = n + 1 < steps.length ? steps[n + 1][0] : 1;
    if (until <= low || x >= high || !count) return;
    const from = px(Math.max(x, low)), to = px(Math.min(until, high)), last = plateaus[plateaus.length - 1];
    if (last && to - from < 2 && count < last[2]) last[1] = to;
    else if (last && last[2] === count && from - last[1] < 2) last[1] = to;
    else plateaus.push([from, to, count]);
  });
  const tallest = Math.max(...steps.map((s) => s[1])), scale = (LV.strip - 16) / Math.max(sheet.stop, tallest);
  let area = "", edge = "", numbers = "", peak = 0;
  plateaus.forEach(([from, to, count], n) => {
    const above = (o) => !o || o[2] < count, end = above(plateaus[n - 1]) && above(plateaus[n + 1]) ? Math.max(to, from + 2) : to;
    const tall = count * scale, wide = end - from;
    peak = Math.max(peak, count);
    area += `M${lvNum(from)} ${lvNum(bottom)}v${lvNum(-tall)}h${lvNum(wide)}v${lvNum(tall)}z`;
    edge += `M${lvNum(from)} ${lvNum(bottom - tall)}h${lvNum(wide)}`;
    if (wide >= 26) numbers += lvText(from + wide / 2, tall >= 15 ? bottom - 4 : bottom - tall - 3, lwCount(count), { size: 11, fill: "ink", weight: 600, anchor: "middle" });
  });
  parts.push(lvTag("path", { d: area, fill: lvVar("ink2"), "fill-opacity": "0.22" }), lvTag("path", { d: edge, fill: "none", stroke: lvVar("ink2"), "stroke-width": "1.75" }),
    lvLine(left, bottom, right, bottom, "line2"), numbers, lvText(right + 12, bottom - 14, `max ${peak}`, { fill: "ink", weight: 600 }),
    lvText(right + 12, bottom, `of ${lwPlural(runs, "run")}`, { size: 11 }));
  return parts.join("");
}
