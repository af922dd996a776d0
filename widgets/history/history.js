// The history of a table in the browser: for each file when it came and when it went; the files of any moment.
// Facts only: what was decided, and in which order runs lie (`newness`), comes from Python.
const LW_ARRAYS = { i1: Int8Array, i2: Int16Array, i4: Int32Array, f8: Float64Array };
async function lwInflated(data) {
  const stream = new Blob([data]).stream().pipeThrough(new DecompressionStream("deflate"));
  const bytes = await new Response(stream).arrayBuffer();
  const long = new DataView(bytes).getUint32(0, true), start = 4 + long;
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(bytes, 4, long)));
  for (const [name, kind, at, count, differs] of head.columns) {
    const stored = new LW_ARRAYS[kind](bytes, start + at, count), values = Float64Array.from(stored);
    for (let i = 1; differs && i < count; i++) values[i] += values[i - 1];
    head[name] = values;
  }
  return head;
}
const LW_COLUMNS = ["added", "removed", "place", "newness", "level", "rows", "deletes", "bytes", "min_sequence", "max_sequence", "masked", "origin", "created", "low", "high"];
const LW_TEXTS = ["names", "low_keys", "high_keys", "sources"];
// `base` and `tail`: bytes of `packed` in `history.py`. Gives { first, last, covers, at(snapshot, place), cells(snapshot) }.
async function lwHistory(base, tail) {
  const h = await lwInflated(base);
  const t = tail && tail.byteLength ? await lwInflated(tail) : null;
  // A tail of another base is one that was sent before or will be followed by its own: it is left out.
  if (t && t.after === h.last && t.start === h.added.length) {
    t.gone.forEach((row, i) => { h.removed[row] = t.gone_in[i]; });
    for (const name of LW_COLUMNS) {
      const all = new Float64Array(t.start + t.count);
      all.set(h[name].subarray(0, t.start)); all.set(t[name], t.start);
      h[name] = all;
    }
    // A bucket that is new may stand between older ones.
    const moved = h.places.map((id) => t.places.indexOf(id));
    for (let i = 0; i < t.start; i++) h.place[i] = moved[h.place[i]];
    for (const name of LW_TEXTS) h[name] = h[name].concat(t[name]);
    Object.assign(h, { last: t.last, places: t.places, axes: t.axes });
  }
  const count = h.added.length, of = new Map(h.places.map((id, i) => [id, i]));
  const rows = h.places.map(() => []);
  for (let i = 0; i < count; i++) rows[h.place[i]].push(i);
  // A file without `removed` is there; one without `added` was there before the first snapshot.
  const there = (i, snapshot) => h.added[i] <= snapshot && (!h.removed[i] || h.removed[i] > snapshot);
  for (const some of rows) {
    some.sort((a, b) => h.level[a] - h.level[b] || (h.level[a] ? h.low[a] - h.low[b] || h.high[a] - h.high[b] : h.newness[b] - h.newness[a]));
  }
  return {
    first: h.first, last: h.last, places: h.places, axes: h.axes, facts: h,
    covers: (snapshot) => snapshot >= h.first && snapshot <= h.last,
    // The files of a bucket, newest run first: positions in `facts`.
    at: (snapshot, place) => (rows[of.get(place)] || []).filter((i) => there(i, snapshot)),
    // Runs, files, bytes, rows, deletes, masked rows of every bucket that has files.
    cells: (snapshot) => h.places.flatMap((id, p) => {
      const some = rows[p].filter((i) => there(i, snapshot));
      if (!some.length) return [];
      const sum = (column) => some.reduce((all, i) => all + Math.max(h[column][i], 0), 0);
      const runs = some.filter((i) => !h.level[i]).length + new Set(some.map((i) => h.level[i]).filter(Boolean)).size;
      return [{ id, runs, files: some.length, bytes: sum("bytes"), rows: sum("rows"), deletes: sum("deletes"), masked: sum("masked") }];
    }),
  };
}
