// A page without a kernel: models that answer from frames drawn beforehand.
function lwModel(state) {
  const listeners = {}, changed = new Set();
  const fire = (event) => [...(listeners[event] || [])].forEach((fn) => fn());
  return {
    get: (k) => state[k],
    set: (k, v) => { if (JSON.stringify(state[k]) !== JSON.stringify(v)) { state[k] = v; changed.add(k); } },
    save_changes() { for (const k of [...changed]) { changed.delete(k); fire("change:" + k); } fire("change"); },
    on: (event, fn) => (listeners[event] = listeners[event] || []).push(fn),
    off: (event, fn) => { listeners[event] = (listeners[event] || []).filter((f) => f !== fn); },
    send() {},
  };
}
const lwFit = (widths, room) => widths.find((w) => w <= room + 20) || widths[widths.length - 1];
// What a view needs beside its traits and messages where Python drives it in the page: it takes the model.
const LW_LIVE = {};
let lwSpecs = [];
// How a view answers; a view that does more than redraw at another width adds its own in its `page.js`.
const LW_REPLIES = {
  plain(model, spec) {
    const reply = () => {
      const width = lwFit(spec.widths, model.get("width"));
      lwSet(model, { frame: { ...spec.words[width], ...spec.frames[width] } });
    };
    model.on("change:width", reply);
    reply();
  },
};
// What one view's trait becomes, every view of its group becomes that has a trait of this meaning.
function lwFollow(models, specs, i) {
  const followers = (name) => models.filter((_, j) => j !== i && specs[j].group === specs[i].group
    && specs[j].links.includes(name) && name in specs[j].state);
  for (const name of specs[i].links.filter((link) => link in specs[i].state)) {
    const others = followers(name);
    models[i].on("change:" + name, () => {
      const value = models[i].get(name);
      for (const other of others) if (value != null) lwSet(other, { [name]: value });
    });
  }
}
async function lwBoot(lwViews) {
  const packed = Uint8Array.from(atob(document.getElementById("lw-data").textContent.trim()), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  const specs = lwSpecs = await new Response(stream).json();
  const models = specs.map((spec) => lwModel({ ...spec.state, static: true }));
  const host = {
    getWidget: async (i) => ({ render: ({ el }) => lwViews[specs[i].entry]({ model: models[i], el, host }) }),
  };
  specs.forEach((spec, i) => {
    const el = document.querySelector(`[data-view="${i}"]`), model = models[i];
    if (el) lwSet(model, { width: Math.floor(el.clientWidth / 20) * 20 });
    LW_REPLIES[spec.reply](model, spec);
    if (el) lwViews[spec.entry]({ model, el, host });
  });
  specs.forEach((spec, i) => lwFollow(models, specs, i));
  document.body.dataset.ready = "true";
}
