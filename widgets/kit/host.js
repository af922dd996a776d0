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
let lwSpecs = [], lwModels = [];
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
// What the address of a page says after "#": the moment and the file that are looked at, so that a link opens
// them again. Of several timelines the first, and the levels beside it.
function lwAddress(models, specs) {
  const at = specs.findIndex((spec) => spec.reply === "timeline");
  if (at < 0) return;
  const timeline = models[at], levels = models.find((_, i) => specs[i].reply === "levels" && specs[i].group === specs[at].group);
  let going = false;
  const go = () => {
    const asked = new URLSearchParams(location.hash.slice(1)), moment = asked.get("snapshot"), place = asked.get("bucket"), file = asked.get("file");
    going = true;
    if (moment) { lwSet(timeline, { jump: "" }); lwSet(timeline, { jump: moment }); }
    if (levels && place && place !== levels.get("opened")) lwSet(levels, { opened: place });
    if (levels && file) lwSet(levels, { selected: [file] });
    going = false;
  };
  const tell = () => {
    if (going) return;
    const said = new URLSearchParams({ snapshot: timeline.get("snapshot") }), file = levels && (levels.get("selected") || [])[0];
    if (file) { said.set("bucket", levels.get("opened")); said.set("file", file); }
    try { history.replaceState(null, "", "#" + said); } catch { /* a page inside a page has no address */ }
  };
  timeline.on("change:snapshot", tell);
  if (levels) for (const name of ["selected", "opened"]) levels.on("change:" + name, tell);
  window.addEventListener("hashchange", go);
  go();
}
async function lwBoot(lwViews) {
  const packed = Uint8Array.from(atob(document.getElementById("lw-data").textContent.trim()), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  const specs = lwSpecs = await new Response(stream).json();
  const models = lwModels = specs.map((spec) => lwModel({ ...spec.state, static: true }));
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
  lwAddress(models, specs);
  document.body.dataset.ready = "true";
}
