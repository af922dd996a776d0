// A page without a kernel: models that answer from frames drawn beforehand.
function lwModel(state) {
  const heard = {}, changed = new Set();
  const fire = (event) => [...(heard[event] || [])].forEach((fn) => fn());
  return {
    get: (k) => state[k],
    set: (k, v) => { if (JSON.stringify(state[k]) !== JSON.stringify(v)) { state[k] = v; changed.add(k); } },
    save_changes() { for (const k of [...changed]) { changed.delete(k); fire("change:" + k); } fire("change"); },
    on: (event, fn) => (heard[event] = heard[event] || []).push(fn),
    off: (event, fn) => { heard[event] = (heard[event] || []).filter((f) => f !== fn); },
    send() {},
  };
}
const lwFit = (widths, room) => widths.find((w) => w <= room) || widths[widths.length - 1];
const LW_REPLIES = {
  timeline(model, spec) {
    const reply = () => {
      const page = spec.paged ? Math.floor(model.get("index") / spec.page) : 0;
      const width = lwFit(spec.widths, model.get("width")), frames = spec.frames[width];
      lwSet(model, { frame: { ...spec.words[width], ...(frames[page] || frames[0]) } });
    };
    model.on("change:width", reply);
    model.on("change:index", () => { lwSet(model, { snapshot: spec.ids[model.get("index")], selected: [spec.ids[model.get("index")]] }); reply(); });
    model.on("change:snapshot", () => { const i = spec.ids.indexOf(model.get("snapshot")); if (i >= 0) lwSet(model, { index: i }); });
    model.on("change:jump", () => {
      const wanted = String(model.get("jump")).trim(), tag = spec.tags[wanted];
      const i = spec.ids.indexOf(tag === undefined ? Number(wanted.replace(/^#/, "")) : tag);
      if (i >= 0) lwSet(model, { index: i });
    });
    reply();
  },
  levels(model, spec) {
    const reply = () => {
      const width = lwFit(spec.widths, model.get("width")), shot = model.get("snapshot");
      const frames = spec.frames[width], base = frames.base[[shot, model.get("colour_by")].join("|")] || {};
      const one = frames.buckets[[shot, model.get("opened"), model.get("mode")].join("|")];
      const missing = { what: "This part is not in the file.", text: `levels of #${shot}, ${model.get("opened") || "the bucket"}`, next: "Open the table with a kernel, or export more snapshots." };
      lwSet(model, { frame: one ? { ...base, ...one, error: null } : { ...model.get("frame"), ...base, error: missing } });
    };
    for (const k of ["width", "snapshot", "opened", "mode", "colour_by"]) model.on("change:" + k, reply);
    reply();
  },
  plain(model, spec) {
    const reply = () => {
      const width = lwFit(spec.widths, model.get("width"));
      lwSet(model, { frame: { ...spec.words[width], ...spec.frames[width] } });
    };
    model.on("change:width", reply);
    reply();
  },
};
async function lwBoot(renderers) {
  const packed = Uint8Array.from(atob(document.getElementById("lw-data").textContent.trim()), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  const specs = await new Response(stream).json();
  const models = specs.map((spec, i) => {
    const el = document.querySelector(`[data-view="${i}"]`), model = lwModel({ ...spec.state, static: true });
    model.set("width", Math.floor(el.clientWidth / 20) * 20);
    model.save_changes();
    LW_REPLIES[spec.reply](model, spec);
    renderers[spec.kind]({ model, el });
    return model;
  });
  for (const a of models) {
    for (const b of models) {
      if (a !== b) a.on("change:snapshot", () => { if (a.get("snapshot") != null && b.get("snapshot") != null) lwSet(b, { snapshot: a.get("snapshot") }); });
    }
  }
  document.body.dataset.ready = "true";
}
