// A page that plays: recorded pictures first; when Python is ready each view goes on as one of its own.
function lwLiveModel(id, state, tell) {
  const model = lwModel(state), local = new Set(), mine = new Set();
  const set = model.set, save = model.save_changes;
  return Object.assign(model, {
    id,
    local: (name) => local.add(name),
    set(k, v) { if (JSON.stringify(model.get(k)) !== JSON.stringify(v)) mine.add(k); set(k, v); },
    save_changes() {
      const changes = Object.fromEntries([...mine].filter((k) => !local.has(k)).map((k) => [k, model.get(k)]));
      mine.clear();
      save();
      if (Object.keys(changes).length) tell({ id, state: changes });
    },
    send: (content) => tell({ id, content }),
    take(values) { for (const [k, v] of Object.entries(values)) if (!local.has(k)) set(k, v); save(); },
  });
}
const lwScript = (src) => new Promise((done, fail) => {
  const script = Object.assign(document.createElement("script"), { src, onload: done, onerror: () => fail(new Error(`${src} is missing`)) });
  document.head.append(script);
});
async function lwPlay(start) {
  const status = document.getElementById("lw-play");
  while (!document.body.dataset.ready) await new Promise((next) => setTimeout(next, 20));
  await new Promise((next) => requestAnimationFrame(() => setTimeout(next))); // the recorded picture is seen first
  try { await lwStart(status, start); } catch (e) { status.textContent = `Python did not start: ${e.message}.`; status.dataset.state = "failed"; }
}
async function lwStart(status, { scripts, worker, lock, recipe, first }) {
  const say = (text, state) => { status.textContent = text; status.dataset.state = state; };
  say("A recorded picture; Python is starting in this page …", "starting");
  await Promise.all(scripts.map(lwScript));
  const thread = new Worker(URL.createObjectURL(new Blob([worker], { type: "text/javascript" })));
  const waiting = new Map(), models = {};
  let number = 0;
  const tell = (message) => new Promise((done) => { waiting.set(++number, done); thread.postMessage({ number, message }); });
  thread.onerror = (e) => say(`Python did not start: ${e.message}. The picture above is a recording.`, "failed");
  thread.onmessage = ({ data }) => {
    if (data.views) return begin(data.views);
    if (data.error && !data.number) { console.error(data.whole); return say(`Python did not start: ${data.error}. The picture above is a recording.`, "failed"); }
    if (data.error) say(`✕ ${data.error}`, "error"); else if (status.dataset.state === "error") say("", "ready");
    for (const [id, values] of Object.entries(data.changes || {})) if (models[id]) models[id].take(values);
    waiting.get(data.number)?.();
    waiting.delete(data.number);
  };
  function begin(views) {
    const specs = lwSpecs;
    views.forEach(({ id, state }, i) => {
      const at = first + i, el = document.querySelector(`[data-view="${at}"]`);
      const model = models[id] = lwLiveModel(id, { ...state, static: false, at_once: true }, tell);
      (LW_LIVE[specs[at].kind] || (() => {}))(model);
      el.replaceChildren();
      lwViews[specs[at].entry]({ model, el, host: {} });
      const early = (specs[at].carries || []).filter((name) => lwModels[at].get(name) !== specs[at].state[name]);
      if (early.length) lwSet(model, Object.fromEntries(early.map((name) => [name, lwModels[at].get(name)])));
    });
    status.dataset.seconds = (performance.now() / 1000).toFixed(2);
    say("Playable: the engine's own rules run in this page.", "ready");
  }
  thread.postMessage({ files: { ...lwPython, ...lwEngine }, recipe, lock });
}
