(() => {
const STYLE = ".tsw{--lw-bg:var(--jp-layout-color0,#ffffff);color-scheme:light;--lw-panel:#f6f7f9;--lw-raise:#ffffff;--lw-sel-tint:#eef1f4;--lw-line:#e2e5e9;--lw-line2:#848c96;--lw-ink3:#67707a;--lw-ink2:#57606a;--lw-ink:#1f2328;--lw-err:#b3261e;--lw-focus:#1976d2;--lw-ui:var(--jp-ui-font-family,system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif);}body[data-jp-theme-light=\"false\"] .tsw{--lw-bg:var(--jp-layout-color0,#111111);color-scheme:dark;--lw-panel:#1a1c1f;--lw-raise:#24272b;--lw-sel-tint:#24272b;--lw-line:#31353b;--lw-line2:#777f89;--lw-ink3:#8f98a3;--lw-ink2:#a9b1bb;--lw-ink:#e8ebef;--lw-err:#ff8a80;--lw-focus:#64b5f6;}@media (prefers-color-scheme:dark){body:not([data-jp-theme-light]) .tsw{--lw-bg:var(--jp-layout-color0,#111111);color-scheme:dark;--lw-panel:#1a1c1f;--lw-raise:#24272b;--lw-sel-tint:#24272b;--lw-line:#31353b;--lw-line2:#777f89;--lw-ink3:#8f98a3;--lw-ink2:#a9b1bb;--lw-ink:#e8ebef;--lw-err:#ff8a80;--lw-focus:#64b5f6;}}.tsw{color:var(--lw-ink);background:var(--lw-bg);font:400 12px/16px var(--lw-ui);font-variant-numeric:tabular-nums;}.tsw button{font:500 12px/16px var(--lw-ui);color:var(--lw-ink);background:var(--lw-bg);border:1px solid var(--lw-line2);border-radius:4px;height:24px;padding:0 8px;cursor:pointer;white-space:nowrap;}.tsw button:hover:not(:disabled){background:var(--lw-sel-tint);}.tsw button:disabled{color:var(--lw-ink3);border-color:var(--lw-line);cursor:default;}.tsw :focus-visible{outline:2px solid var(--lw-focus);outline-offset:1px;}.tsw-bar{display:flex;flex-wrap:wrap;align-items:center;gap:8px;padding:8px 16px;border:1px solid var(--lw-line);border-radius:6px;margin-bottom:4px;color:var(--lw-ink2);}.tsw-bar span{flex:1 1 220px;}.tsw-cockpit{overflow:auto;padding:8px;}.tsw-lakes{display:flex;flex-direction:column;height:100%;overflow:hidden;min-width:200px;}.tsw-head{display:flex;align-items:center;justify-content:space-between;padding:8px 12px 4px;}.tsw-head h2{font:600 13px/18px var(--lw-ui);margin:0;}.tsw-who{display:flex;flex-wrap:wrap;align-items:center;gap:4px 8px;padding:0 12px 8px;color:var(--lw-ink2);overflow-wrap:anywhere;}.tsw-add{display:flex;gap:8px;padding:0 12px 8px;}.tsw-add input{flex:1;min-width:0;height:24px;padding:0 8px;font:400 12px/16px var(--lw-ui);color:var(--lw-ink);background:var(--lw-bg);border:1px solid var(--lw-line2);border-radius:4px;box-sizing:border-box;}.tsw-add input::placeholder{color:var(--lw-ink3);}.tsw-tree{flex:1;margin:0;padding:2px 0;overflow:auto;list-style:none;border-top:1px solid var(--lw-line);}.tsw-tree li{display:flex;align-items:center;gap:6px;min-height:24px;padding-right:8px;cursor:default;white-space:nowrap;user-select:none;touch-action:none;}.tsw-tree li:hover{background:var(--lw-panel);}.tsw-tree li[aria-selected=\"true\"]{background:var(--lw-sel-tint);box-shadow:inset 2px 0 var(--lw-ink);}.tsw-tree li:focus-visible{outline-offset:-2px;}.tsw-twist,.tsw-sign{flex:0 0 14px;text-align:center;color:var(--lw-ink2);}.tsw-twist{align-self:stretch;line-height:24px;}.tsw-name{flex:0 1 auto;min-width:20px;overflow:hidden;text-overflow:ellipsis;}.tsw-detail{flex:1 1 0;min-width:0;overflow:hidden;text-overflow:ellipsis;color:var(--lw-ink2);font-size:11px;}.tsw-wrong{color:var(--lw-err);white-space:normal;overflow-wrap:anywhere;padding:4px 0;}.tsw-doing{display:flex;flex-wrap:wrap;gap:8px;padding:8px 12px;border-top:1px solid var(--lw-line);}.tsw-drag{padding:4px 8px;border:1px solid var(--lw-line2);border-radius:4px;max-width:240px;overflow:hidden;text-overflow:ellipsis;white-space:nowrap;}@media (forced-colors:active){.tsw-tree li[aria-selected=\"true\"]{outline:2px solid Highlight;outline-offset:-2px;}}.tsw-term{text-decoration:underline dotted var(--jp-ui-font-color2,currentColor);text-underline-offset:2px;cursor:help;}.tsw-term-card{margin:0;position:fixed;inset:auto;max-width:300px;padding:8px 12px;border:1px solid var(--lw-line2);border-radius:6px;background:var(--lw-raise);box-shadow:0 4px 14px rgba(0,0,0,.16);pointer-events:none;}", TERMS = {"lift level 0": ["lift level 0", "The rule after all others: level 0 is emptied, whatever the sizes say. Off unless an option asks for it."], "sorted runs": ["run", "Rows sorted by key, no key twice: one file of level 0, or all files of an older level. Runs are what a read pays for."], "sorted run": ["run", "Rows sorted by key, no key twice: one file of level 0, or all files of an older level. Runs are what a read pays for."], "early full": ["early full", "The rule before all others: everything is compacted into the oldest level, by a clock or while the bucket is below a size. Off unless an option asks for it."], "triggers": ["trigger", "How many runs there must be before the rules look at sizes: num-sorted-run.compaction-trigger."], "trigger": ["trigger", "How many runs there must be before the rules look at sizes: num-sorted-run.compaction-trigger."], "levels": ["level", "Where a run lies. At level 0 every flush is a run of its own; from level 1 on a level is one run. A larger number means older rows."], "lanes": ["lane", "One row of a picture: a run of level 0, a whole older level, or one actor."], "level": ["level", "Where a run lies. At level 0 every flush is a run of its own; from level 1 on a level is one run. A larger number means older rows."], "runs": ["run", "Rows sorted by key, no key twice: one file of level 0, or all files of an older level. Runs are what a read pays for."], "lane": ["lane", "One row of a picture: a run of level 0, a whole older level, or one actor."], "run": ["run", "Rows sorted by key, no key twice: one file of level 0, or all files of an older level. Runs are what a read pays for."], "due": ["due", "A compaction is due when a rule fires for the runs there are now."]};
const NAME = "tablestore-workbench";
let scope;
async function use(name) {
const versions = scope[name] || {}, there = Object.keys(versions);
if (!there.length) throw Error(`${name} is not shared by this JupyterLab`);
return (await versions[there.find((version) => versions[version].loaded) || there[0]].get())();
}
async function modules(names) {
return Object.assign({}, ...(await Promise.all(names.map(use))));
}
function el(tag, attrs = {}, ...kids) {
const node = document.createElement(tag);
for (const [k, v] of Object.entries(attrs)) {
if (k.startsWith("on")) node.addEventListener(k.slice(2), v);
else if (v !== false && v != null) node.setAttribute(k, v === true ? "" : v);
}
node.append(...kids);
return node;
}
const sleep = (ms) => new Promise((go) => setTimeout(go, ms));
const RUN = ["Run this cell", "runs the cell of this picture"];
const RUN_ABOVE = ["Run all above", "runs every cell above, then the cell of this picture"];
const RESTORE = ["Restart and restore", "restarts the kernel, runs every cell above, then the cell of this picture"];
async function startKernel(context) {
await context.specsManager.ready;
const { specs } = context.specsManager, wanted = context.kernelPreference.name;
const name = specs?.kernelspecs[wanted] ? wanted : specs?.default;
if (name) await context.changeKernel({ name });
}
async function run(app, panel, node, { above = false, restart = false } = {}) {
const notebook = panel.content, context = panel.sessionContext;
const at = notebook.widgets.findIndex((cell) => cell.node.contains(node));
if (at < 0) throw Error("its cell is not in the notebook any more");
app.shell.activateById(panel.id);
if (!context.session?.kernel) await startKernel(context);
else if (restart && ["idle", "busy"].includes(context.session.kernel.status)) await context.restartKernel();
if (!context.session?.kernel) throw Error("no kernel could be started; choose one in the menu Kernel");
notebook.deselectAll();
notebook.activeCellIndex = at;
if (above && at > 0 && (await app.commands.execute("notebook:run-all-above")) === false) throw Error("a cell above failed");
notebook.activeCellIndex = at;
await app.commands.execute("notebook:run-cell");
}
function offerToRestore(app, notebooks) {
document.addEventListener("tablestore-lost", ({ target, detail }) => {
const panel = notebooks.find((each) => each.node.contains(target));
if (!panel) return;
detail.offer(...RESTORE, () => run(app, panel, target, { above: true, restart: true }), true);
detail.offer(...RUN, () => run(app, panel, target));
});
}
const MANAGED_SECONDS = 20;
const isManaged = (registry, common) => registry.getFactory(LIVE) !== common.getFactory(LIVE);
async function giveManager(context, registry, common) {
const { registerWidgetManager } = await use("@jupyter-widgets/jupyterlab-manager");
registerWidgetManager(context, registry, []);
for (let i = 0; !isManaged(registry, common); i++) {
if (i > MANAGED_SECONDS * 20) throw Error("the widget manager did not come up");
await sleep(50);
}
}
async function giveManagerLater(panel, common) {
const session = panel.sessionContext, registry = panel.content.rendermime;
await session.ready;
if (session.session?.kernel) return;
const onKernel = (_, { newValue }) => {
if (!newValue) return;
session.kernelChanged.disconnect(onKernel);
if (!isManaged(registry, common)) giveManager(panel.context, registry, common).catch((e) => console.warn(e.message));
};
session.kernelChanged.connect(onKernel);
}
const SHOWN = "application/vnd.tablestore.view+json", LIVE = "application/vnd.jupyter.widget-view+json";
const RANK = -20; // before the widget view, which has -10
function savedView({ Panel, Widget }, app, common) {
return class SavedView extends Panel {
constructor(registry, notebook) {
super();
Object.assign(this, { registry, notebook, turn: 0 });
this.addClass("tsw-saved");
}
async renderModel(model) {
const turn = ++this.turn, over = () => this.isDisposed || turn !== this.turn;
const manager = await this.manager(model, false);
if (over()) return;
if (await this.live(model, manager)) return;
await this.picture(model, manager === null);
if (manager === null || over()) return;
const later = await this.manager(model, true);
if (!over() && !(await this.live(model, later)) && !over()) this.said("");
}
async manager(model, wait) {
const context = this.notebook.sessionContext;
if (!model.trusted || !model.data[LIVE]) return null;
if (wait) await context.ready;
if (context.isReady && !context.session?.kernel) return null;
for (let i = 0; !isManaged(this.registry, common); i++) {
if (!wait || i > 200) return undefined; // bound to each notebook's registry once its session is ready
await sleep(50);
}
const found = await this.registry.createRenderer(LIVE)._manager?.promise, id = model.data[LIVE].model_id;
if (!found?.has_model) return null;
if (wait && !found.has_model(id) && found.restored && !found.restoredStatus) {
await new Promise((go) => found.restored.connect(() => go())); // a busy kernel takes its time
}
return found;
}
async live(model, manager) {
const id = model.data[LIVE]?.model_id;
if (!manager?.has_model(id) || !(await this.known(id))) return false;
const view = this.registry.createRenderer(LIVE);
await view.renderModel(model);
if (this.isDisposed) { view.dispose(); return true; }
for (const old of [...this.widgets]) old.dispose();
this.addWidget(view);
return true;
}
async known(id) {
if (!this.notebook.content.model?.getMetadata?.("widgets")) return true;
const kernel = this.notebook.sessionContext.session?.kernel;
if (!kernel) return false;
return id in (await kernel.requestCommInfo({ target_name: "jupyter.widget" })).content.comms;
}
async picture(model, alone) {
const type = ["text/html", "image/svg+xml", "text/plain"].find((each) => each in model.data) || "text/plain";
const drawn = this.registry.createRenderer(type);
await drawn.renderModel(model);
const words = el("span", { role: "status" }), bar = el("div", { class: "tsw tsw-bar" }, words);
const button = ([text, title], act) => el("button", { type: "button", title, onclick: async () => {
for (const each of bar.querySelectorAll("button")) each.disabled = true;
try { await act(); } catch (e) { words.textContent = `✕ ${e.message}`; }
for (const each of bar.querySelectorAll("button")) each.disabled = false;
} }, text);
bar.append(button(RUN, () => run(app, this.notebook, this.node)), button(RUN_ABOVE, () => run(app, this.notebook, this.node, { above: true })));
this.said = (text) => { words.textContent = text || "Saved picture: run the cell to go live."; };
const asked = !alone && this.notebook.sessionContext.session?.kernel;
this.said(asked ? "Saved picture: asking the kernel for the live view …" : "");
for (const old of [...this.widgets]) old.dispose();
this.addWidget(new Widget({ node: bar }));
this.addWidget(drawn);
}
};
}
function showSavedViews(app, common, lumino) {
const SavedView = savedView(lumino, app, common);
app.docRegistry.addWidgetExtension("Notebook", {
createNew(panel) { // before its cells are drawn
const registry = panel.content.rendermime;
registry.addFactory({ safe: true, mimeTypes: [SHOWN], createRenderer: () => new SavedView(registry, panel) }, RANK);
giveManagerLater(panel, common);
},
});
}
const KIND = "tablestore-lakes", SECONDS = 25, MODULE = '__import__("widgets.lakes", fromlist=["answer"])';
class Busy extends Error {}
const python = (value) => JSON.stringify(JSON.stringify(value)); // a JSON text is a Python literal, too
class Kernels {
constructor({ app, notebooks, SessionContext, UUID, Signal }) {
Object.assign(this, { app, notebooks, SessionContext, UUID });
this.changed = new Signal(this); // another kernel, or the one there is free again
this.ownPreferred = this.ended = false;
this.last = Promise.resolve();
this.late = new Set();
notebooks?.currentChanged.connect((_, panel) => this.follow(panel));
}
follow(panel) {
panel?.sessionContext.kernelChanged.connect(this.onKernel, this);
panel?.sessionContext.statusChanged.connect(this.onStatus, this);
this.onKernel();
}
onKernel(context) {
if (context && context === this.hidden && !context.session?.kernel) this.ended = true; // not to come back by itself
this.changed.emit();
}
onStatus(_, status) {
if (status !== "idle" || !this.refused) return;
this.refused = false;
this.changed.emit();
}
notebook() {
const panel = this.notebooks?.currentWidget;
return !this.ownPreferred && panel && !panel.isDisposed && panel.sessionContext.session?.kernel ? panel : null;
}
async running() {
const { sessions } = this.app.serviceManager;
await sessions.ready;
await sessions.refreshRunning();
return [...sessions.running()].find((each) => each.type === KIND);
}
get ownRuns() { return !!this.hidden?.session?.kernel; }
own() {
if (this.ownRuns) return Promise.resolve(this.hidden);
this.starting ||= this.start().finally(() => { this.starting = null; });
return this.starting;
}
async start() {
const { sessions, kernelspecs, kernels } = this.app.serviceManager;
const running = await this.running();
const name = this.notebooks?.currentWidget?.sessionContext.kernelPreference.name || kernelspecs.specs?.default;
const context = new this.SessionContext({
sessionManager: sessions, specsManager: kernelspecs, kernelManager: kernels, type: KIND, name: "Lakes",
path: running?.path || `${KIND}-${this.UUID.uuid4()}`,
kernelPreference: { name, autoStartDefault: true, shouldStart: true, canStart: true, shutdownOnDispose: false },
});
await context.initialize();
await context.ready;
await context.session?.kernel?.info; // it has started
context.statusChanged.connect(this.onStatus, this);
context.kernelChanged.connect(this.onKernel, this);
this.hidden = context;
return context;
}
async endOwn() {
this.ended = true;
await this.hidden?.shutdown();
this.hidden?.dispose();
this.hidden = null;
this.changed.emit();
}
async context() { return this.notebook()?.sessionContext || this.own(); }
ask(question) {
const answer = this.last.then(() => this.answered(question));
this.last = answer.catch(() => 0);
return answer;
}
async free(context) {
const kernel = context.session?.kernel;
if (!kernel) throw Error("the kernel is gone");
for (let i = 0; kernel.status === "busy" && i < 20; i++) await sleep(50); // it says so a moment after its reply
if (kernel.status === "busy" || this.late.has(kernel.id)) { this.refused = true; throw new Busy("kernel busy"); }
return kernel;
}
async answered(question) {
const kernel = await this.free(await this.context());
const code = `${MODULE}.answer(${python(question)})`;
const future = kernel.requestExecute({ code: "", silent: true, store_history: false, allow_stdin: false, user_expressions: { answer: code } });
const reply = await Promise.race([future.done, sleep(SECONDS * 1000)]);
if (!reply) {
this.late.add(kernel.id);
const free = () => { this.late.delete(kernel.id); this.changed.emit(); };
future.done.then(free, free);
throw new Busy(`kernel busy: no answer in ${SECONDS} s`);
}
const found = reply.content.user_expressions?.answer;
if (found?.status === "ok") return found.data["application/json"];
if (found?.ename === "ModuleNotFoundError") throw Error(`this kernel cannot import what the list needs (${found.evalue})`);
throw Error(found ? `${found.ename}: ${found.evalue}` : `the kernel answered ${reply.content.status}`);
}
}
class Cockpits {
constructor(app, kernels, common, parts) {
Object.assign(this, { app, kernels, common, parts });
this.registries = new WeakMap();
this.tabs = new parts.WidgetTracker({ namespace: "tablestore-cockpits" });
}
restoreBy(restorer) {
this.app.commands.addCommand(TAB, { label: "Cockpit of a Restored Page", execute: (opened) => { this.restore(opened); } });
restorer.restore(this.tabs, { command: TAB, args: (tab) => tab.opened, name: (tab) => tab.id });
}
async open(place, title) {
const panel = this.kernels.notebook(), context = await this.kernels.context();
await this.kernels.free(context);
const tab = this.tab({ place, title, token: this.parts.UUID.uuid4(), notebook: panel?.context.path ?? "" });
this.app.shell.activateById(tab.id);
await this.fill(tab, panel, context);
}
async restore(opened) {
const tab = this.tab(opened), { title, notebook } = opened;
tab.say(`Waiting for the kernel of ${title} …`);
await this.app.restored;
const panel = notebook ? this.notebook(notebook) : null;
await panel?.sessionContext.ready;
const there = notebook ? panel?.sessionContext.session?.kernel : await this.kernels.running();
if (tab.isDisposed) return;
if (there) return this.again(tab).catch((e) => this.offer(tab, `✕ ${e.message}`));
this.offer(tab, notebook && !panel ? `The notebook ${notebook} is not open.` : "Its kernel is gone.");
}
offer(tab, words) {
tab.say(words, "Open again", () => this.again(tab).catch((e) => this.offer(tab, `✕ ${e.message}`)));
}
notebook(path) { return this.kernels.notebooks?.find((each) => each.context.path === path); }
async again(tab) {
const path = tab.opened.notebook;
const panel = path ? this.notebook(path) || (await this.app.commands.execute("docmanager:open", { path })) : null;
await panel?.sessionContext.ready;
const context = panel ? panel.sessionContext : await this.kernels.own();
if (!context.session?.kernel) await startKernel(context);
await this.fill(tab, panel, context);
}
async registry(panel, context) {
if (panel) {
const found = panel.content.rendermime;
for (let i = 0; !isManaged(found, this.common) && i < MANAGED_SECONDS * 20; i++) await sleep(50);
return found;
}
if (this.registries.has(context)) return this.registries.get(context);
const registry = this.common.clone(), { Signal } = this.parts, url = async (path) => path;
const nothing = { getMetadata: () => undefined, setMetadata() {}, dirty: false };
await giveManager({ sessionContext: context, saveState: new Signal({}), path: "", model: nothing,
urlResolver: { resolveUrl: url, getDownloadUrl: url } }, registry, this.common);
this.registries.set(context, registry);
return registry;
}
tab(opened) {
const { Panel, MainAreaWidget, icon } = this.parts, content = new Panel();
content.addClass("tsw-cockpit");
content.node.tabIndex = -1;
const bar = el("div", { class: "tsw tsw-bar", role: "status" });
const tab = Object.assign(new MainAreaWidget({ content }), { opened });
tab.id = `tsw-${opened.token}`;
Object.assign(tab.title, { label: opened.title, caption: `Cockpit of ${opened.title}`, icon, closable: true });
tab.say = (words, ...button) => {
bar.replaceChildren(el("span", {}, words));
if (button.length) bar.append(el("button", { type: "button", onclick: button[1] }, button[0]));
if (words) content.node.prepend(bar); else bar.remove();
};
tab.node.addEventListener("tablestore-lost", ({ detail }) => {
detail.offer("Open again", "opens the cockpit in the kernel that runs now", () => this.again(tab), true);
});
this.app.shell.add(tab, "main");
this.tabs.add(tab);
return tab;
}
async fill(tab, panel, context) {
const { SimplifiedOutputArea, OutputAreaModel, OutputArea } = this.parts, { place, title, token } = tab.opened;
tab.say(`Reading ${title} …`);
try {
const kernel = await this.kernels.free(context), rendermime = await this.registry(panel, context);
if (tab.isDisposed) return;
const area = new SimplifiedOutputArea({ model: new OutputAreaModel({ trusted: true }), rendermime, contentFactory: OutputArea.defaultContentFactory });
for (const old of [...tab.content.widgets]) old.dispose();
tab.content.addWidget(area);
tab.leave?.();
tab.leave = this.bind(tab, panel, context);
const code = `${MODULE}.show(${python({ place, token })})`;
area.future = kernel.requestExecute({ code, store_history: false, stop_on_error: false, allow_stdin: false }, false);
await area.future.done;
if (!tab.isDisposed) this.refused(tab, area);
} catch (e) { tab.say(""); throw e; }
}
refused(tab, area) {
const outputs = area.model.toJSON();
if (outputs.some((each) => each.data)) return tab.say("");
area.dispose();
const said = outputs.map((each) => [each.text ?? each.evalue ?? ""].flat().join("")).join(" ").trim();
this.offer(tab, `✕ ${said || "the kernel gave no answer"}`);
}
bind(tab, panel, context) {
const gone = () => tab.dispose();
const onDisposed = () => {
panel?.disposed.disconnect(gone);
const left = context.isDisposed ? null : context.session?.kernel;
if (left && left.status !== "dead") left.requestExecute({ code: `${MODULE}.close(${JSON.stringify(tab.opened.token)})`, silent: true, store_history: false });
};
panel?.disposed.connect(gone);
tab.disposed.connect(onDisposed);
return () => { panel?.disposed.disconnect(gone); tab.disposed.disconnect(onDisposed); };
}
}
const SIGNS = { variable: "◆", path: "▤", database: "▦", table: "▥", snapshots: "●", tags: "⚑", tag: "⚑", branches: "↳", branch: "↳" };
const COMMITS = { APPEND: "●", COMPACT: "◆", OVERWRITE: "■", ANALYZE: "○" };
const HINT = "Enter or double click opens the cockpit, Shift+Enter inserts its code below the cell, arrows move; or drag onto a notebook.";
const keyOf = (place) => JSON.stringify(place);
const shortOf = (path) => path.replace(/\/+$/, "").split("/").slice(-2).join("/") || path;
class Lakes {
constructor(parts, app, kernels, cockpits, notebooks, state) {
Object.assign(this, { parts, app, kernels, cockpits, notebooks, state });
this.paths = []; this.nodes = []; this.opened = new Set(); this.active = null; this.turn = 0;
this.who = el("div", { class: "tsw-who", role: "status" });
this.tree = el("ul", { class: "tsw-tree", role: "tree", "aria-label": "lakes", title: HINT, tabindex: -1 });
this.doing = el("div", { class: "tsw-doing", role: "toolbar", "aria-label": "the chosen entry" });
this.path = el("input", { type: "text", "aria-label": "path of a lake or a table", placeholder: "/path/of/a/lake or table" });
const again = el("button", { type: "button", "aria-label": "read again", title: "read again", onclick: () => { kernels.ended = false; this.refresh(); } }, "⟳");
const add = el("form", { class: "tsw-add", onsubmit: (event) => { event.preventDefault(); this.add(this.path.value.trim()); } },
this.path, el("button", { type: "submit" }, "Add"));
this.node = el("div", { class: "tsw tsw-lakes", "data-lm-suppress-shortcuts": "true" },
el("div", { class: "tsw-head" }, el("h2", {}, "Lakes"), again), this.who, add, this.tree, this.doing);
this.tree.addEventListener("keydown", (event) => this.key(event));
this.tree.addEventListener("pointerdown", (event) => this.grab(event));
kernels.changed.connect(() => { if (this.shown) this.refresh(); });
this.buttons();
}
async restore() {
const [kept] = ((await this.state?.list("tablestore"))?.values || []).map((each) => (each.paths || []).map(String));
if (!kept) return;
this.paths = [...new Set([...kept, ...this.paths])];
if (this.shown && kept.length) this.refresh();
}
async add(path) {
if (!path || this.paths.includes(path)) return;
this.paths.push(path);
this.kernels.ended = false;
this.path.value = "";
await this.keep();
this.opened.add(keyOf([["path", path]]));
await this.refresh([["path", path]]);
}
async forget(path) {
this.paths = this.paths.filter((each) => each !== path);
await this.keep();
await this.refresh();
}
keep() { return this.state?.save(STATE, { paths: this.paths }); }
said(text, ...kids) { this.who.replaceChildren(text, ...kids); }
asks() {
const panel = this.kernels.notebook(), other = this.kernels.notebooks?.currentWidget;
const change = (text, title, act) => el("button", { type: "button", title, onclick: act }, text);
const prefer = (own) => () => { this.kernels.ownPreferred = own; this.kernels.ended = false; this.refresh(); };
if (panel) {
return this.said(`asks the kernel of ${panel.title.label}`, change("own kernel", "ask a kernel that no notebook uses; it is started if need be", prefer(true)));
}
const back = this.kernels.ownPreferred && other ? [change("notebook's", `ask the kernel of ${other.title.label}`, prefer(false))] : [];
if (!this.kernels.ownRuns && this.kernels.ended) return this.said("The hidden kernel is shut down; reading again starts another.", ...back);
if (!this.kernels.ownRuns) return this.said("No notebook with a kernel is in front: adding a lake starts a hidden one.", ...back);
this.said("asks a hidden kernel of its own", change("shut down", "end the hidden kernel", () => this.kernels.endOwn()), ...back);
}
async refresh(active) {
const turn = ++this.turn;
const starts = !this.kernels.ended && (this.kernels.ownPreferred || this.paths.length);
const asks = this.kernels.notebook() || this.kernels.ownRuns || starts;
this.asks();
const asked = this.kernels.notebook()?.sessionContext.session.kernel.id ?? "own";
if (!asks || asked !== this.asked) { this.nodes = []; this.draw(); }
this.asked = asked;
if (!asks) return;
if (!this.kernels.notebook() && !this.kernels.ownRuns) this.said("Starting a hidden kernel to read lakes with …");
const made = [];
let busy = "";
const fill = async (question, place, level) => {
const answer = await this.answer(question);
if (turn !== this.turn) return;
if (answer.busy && !place.length && this.nodes.length) { busy = answer.error; return; }
if (answer.error) made.push({ level, place: [...place, ["said", answer.error]], said: answer.error, wrong: true });
for (const entry of answer.entries || []) {
const node = { ...entry, level, place: [...place, [entry.kind, FOLDER.has(entry.kind) ? "" : entry.name]] };
made.push(node);
if (entry.opens && this.opened.has(keyOf(node.place))) await fill({ place: node.place, skip: 0 }, node.place, level + 1);
}
if (answer.more) made.push({ level, place: [...place, ["more", ""]], said: "… more", from: answer.entries.length });
if (answer.entries && !answer.entries.length) made.push({ level, place: [...place, ["said", ""]], said: place.length ? "empty" : "no lake here yet" });
};
await fill({ roots: this.paths }, [], 1);
if (turn !== this.turn) return;
if (busy) return this.said(`▲ ${busy}`); // what was read before stays
this.nodes = made;
if (active) this.active = keyOf(active);
this.asks();
this.draw();
}
async answer(question) {
try { return await this.kernels.ask(question); } catch (e) {
const busy = e instanceof Busy;
return { busy, error: busy ? `${e.message}; it is asked again when it is free` : e.message };
}
}
async toggle(node, open = !this.opened.has(keyOf(node.place))) {
if (!node.opens) return;
const key = keyOf(node.place), at = this.nodes.indexOf(node), end = this.end(at);
if (!open) {
this.opened.delete(key);
this.nodes.splice(at + 1, end - at - 1);
return this.draw();
}
this.opened.add(key);
node.busy = true;
this.draw();
await this.grow(node, { place: node.place, skip: 0 }, at + 1, node.level + 1, node.place);
}
end(at) {
let end = at + 1;
while (end < this.nodes.length && this.nodes[end].level > this.nodes[at].level) end++;
return end;
}
async grow(node, question, _at, level, place) {
const answer = await this.answer(question), at = this.nodes.indexOf(node);
node.busy = false;
if (at < 0) return;
const more = node.from != null;
const rows = answer.error ? [{ level, place: [...place, ["said", answer.error]], said: answer.error, wrong: true }]
: answer.entries.map((entry) => ({ ...entry, level, place: [...place, [entry.kind, FOLDER.has(entry.kind) ? "" : entry.name]] }));
if (answer.more) rows.push({ level, place: [...place, ["more", ""]], said: "… more", from: question.skip + answer.entries.length });
if (!rows.length) rows.push({ level, place: [...place, ["said", ""]], said: "empty" });
this.nodes.splice(more ? at : at + 1, more ? 1 : this.end(at) - at - 1, ...rows);
if (more) this.active = keyOf(rows[0].place);
this.draw();
}
draw(focus = this.tree.contains(document.activeElement)) {
const there = this.nodes.map((node) => keyOf(node.place));
if (!there.includes(this.active)) this.active = there[0] ?? null;
this.tree.replaceChildren(...this.nodes.map((node, at) => this.row(node, there[at])));
this.buttons();
if (focus) this.focus();
}
row(node, key) {
const chosen = key === this.active, open = this.opened.has(key);
const name = { path: () => shortOf(node.name), snapshot: () => `#${node.name}` }[node.kind]?.() ?? node.name;
const attrs = { role: "treeitem", "aria-level": node.level, "aria-selected": String(chosen), tabindex: chosen ? 0 : -1, "data-kind": node.kind };
if (node.opens) attrs["aria-expanded"] = String(open);
const item = el("li", attrs);
item.style.paddingLeft = `${node.level * 14 - 6}px`;
if (node.said != null) item.append(el("span", { class: node.wrong ? "tsw-wrong" : "tsw-detail" }, (node.wrong ? "✕ " : "") + node.said));
else {
const twist = el("span", { class: "tsw-twist", "aria-hidden": "true" }, node.opens ? (node.busy ? "…" : open ? "▾" : "▸") : "");
item.append(twist, el("span", { class: "tsw-sign", "aria-hidden": "true" }, SIGNS[node.kind] || COMMITS[node.commit] || ""),
el("span", { class: "tsw-name" }, name), el("span", { class: "tsw-detail" }, node.detail));
item.title = [node.kind === "path" ? node.name : name, node.commit, node.detail].filter(Boolean).join(" · ");
twist.addEventListener("click", (event) => { event.stopPropagation(); this.choose(node); this.toggle(node); });
}
item.addEventListener("click", () => { this.choose(node, true); if (!node.cockpit || node.from != null) this.act(node); });
item.addEventListener("dblclick", () => { if (node.cockpit) this.act(node); });
return item;
}
focus() { (this.item() || this.tree).focus(); } // what is not read yet takes the focus when it comes
item() { return this.tree.querySelector('[tabindex="0"]'); }
chosen() { return this.nodes.find((node) => keyOf(node.place) === this.active); }
choose(node, focus = false) {
this.active = keyOf(node.place);
for (const [at, item] of [...this.tree.children].entries()) {
const here = this.nodes[at] === node;
item.setAttribute("aria-selected", String(here));
item.tabIndex = here ? 0 : -1;
if (here && focus) item.focus();
}
this.buttons();
}
act(node) {
if (node.from != null) return this.grow(node, { place: node.place.slice(0, -1), skip: node.from }, 0, node.level, node.place.slice(0, -1));
if (node.cockpit) return this.app.commands.execute(OPEN);
return this.toggle(node);
}
title(place) {
const last = place.filter(([kind, name]) => name && kind !== "said").slice(-3).map(([kind, name]) => kind === "snapshot" ? `#${name}` : kind === "path" ? shortOf(name) : name);
return last.slice(place.length > 2 ? -2 : -1).join(" ");
}
async open() {
const node = this.chosen();
if (!node?.cockpit) return;
try { await this.cockpits.open(node.place, this.title(node.place)); } catch (e) { this.said(`✕ ${e.message}`); }
}
insert() {
const node = this.chosen(), panel = this.notebooks?.currentWidget;
if (!node?.code) return;
if (!panel) return this.said("✕ no notebook is open to insert into");
this.app.shell.activateById(panel.id);
this.app.commands.execute("notebook:insert-cell-below").then(() => panel.content.activeCell.model.sharedModel.setSource(node.code));
}
buttons() {
const node = this.chosen(), kids = [];
const button = (text, title, act, off) => kids.push(el("button", { type: "button", title, disabled: off, onclick: act }, text));
button("Open cockpit", "opens it in a tab (Enter)", () => this.app.commands.execute(OPEN), !node?.cockpit);
button("Insert below", "inserts its code below the chosen cell (Shift+Enter)", () => this.app.commands.execute(INSERT), !node?.code);
if (node?.kind === "path" && this.paths.includes(node.name)) button("Forget", "takes the path off this list; the lake stays (Delete)", () => this.forget(node.name));
this.doing.replaceChildren(...kids);
}
key(event) {
if (event.ctrlKey || event.metaKey || event.altKey) return;
const node = this.chosen(), at = this.nodes.indexOf(node);
if (!node) return;
const go = (to) => { if (this.nodes[to]) this.choose(this.nodes[to], true); };
const parent = () => { let up = at; while (up > 0 && this.nodes[up].level >= node.level) up--; go(up); };
const open = this.opened.has(this.active) && node.opens;
const acts = {
ArrowDown: () => go(at + 1), ArrowUp: () => go(at - 1), Home: () => go(0), End: () => go(this.nodes.length - 1),
ArrowRight: () => (open ? go(at + 1) : this.toggle(node, true)),
ArrowLeft: () => (open ? this.toggle(node, false) : parent()),
Enter: () => (event.shiftKey ? this.app.commands.execute(INSERT) : this.act(node)),
Delete: () => { if (node.kind === "path") this.forget(node.name); },
};
if (!acts[event.key]) return;
event.preventDefault();
event.stopPropagation();
acts[event.key]();
}
grab(down) {
const item = down.target.closest("li"), node = this.nodes[[...this.tree.children].indexOf(item)];
if (!node?.code || down.button !== 0) return;
const { Drag, MimeData } = this.parts, over = new AbortController();
addEventListener("pointerup", () => over.abort(), { signal: over.signal });
addEventListener("pointermove", (move) => {
if (Math.hypot(move.clientX - down.clientX, move.clientY - down.clientY) < 5) return;
over.abort();
const mimeData = new MimeData();
mimeData.setData("application/vnd.jupyter.cells", [{ cell_type: "code", source: node.code, metadata: {}, outputs: [], execution_count: null }]);
const dragImage = el("div", { class: "tsw tsw-drag" }, node.name);
new Drag({ mimeData, dragImage, supportedActions: "copy", proposedAction: "copy", source: this }).start(move.clientX, move.clientY);
}, { signal: over.signal });
}
}
const TERM = new RegExp("\\b(" + Object.keys(TERMS).join("|") + ")\\b", "gi");
function termCard(mark, [name, meaning]) {
const card = el("span", { class: "tsw tsw-term-card", role: "tooltip", popover: "manual" }, el("b", {}, name), " ", meaning);
const hide = () => { if (card.isConnected) { card.hidePopover(); card.remove(); } };
const show = () => {
if (!card.showPopover || card.isConnected) return;
document.body.append(card);
card.showPopover();
const box = mark.getBoundingClientRect();
card.style.left = Math.max(4, Math.min(box.left, innerWidth - card.offsetWidth - 4)) + "px";
card.style.top = (box.bottom + card.offsetHeight + 8 < innerHeight ? box.bottom + 6 : box.top - card.offsetHeight - 6) + "px";
addEventListener("scroll", hide, { capture: true, once: true });
};
mark.addEventListener("pointerenter", show);
mark.addEventListener("pointerleave", hide);
}
function markTerms(node) {
const walk = document.createTreeWalker(node, NodeFilter.SHOW_TEXT), seen = new Set(), texts = [];
while (walk.nextNode()) if (!walk.currentNode.parentElement.closest("a, code, pre, mjx-container, h1, h2, h3, .tsw-term")) texts.push(walk.currentNode);
for (const text of texts) {
const parts = text.data.split(TERM);
if (parts.length < 2) continue;
text.replaceWith(...parts.map((part, at) => {
const term = at % 2 && TERMS[part.toLowerCase()];
if (!term || seen.has(term[0])) return part;
seen.add(term[0]);
const mark = el("span", { class: "tsw-term" }, part);
termCard(mark, term);
return mark;
}));
}
}
function explainLessons(app) {
app.docRegistry.addWidgetExtension("Notebook", {
createNew(panel) {
const done = new WeakMap(); // rendered cell → its text when it was marked
let lesson = false, due = 0;
const look = () => {
due = 0;
lesson ||= panel.content.widgets.some((cell) => cell.model.sharedModel.getSource().includes("course.begin("));
if (!lesson) return;
for (const node of panel.content.node.querySelectorAll(".jp-MarkdownOutput")) {
if (done.get(node) === node.textContent && node.querySelector(".tsw-term")) continue;
markTerms(node);
done.set(node, node.textContent);
}
};
const watch = new MutationObserver((changes) => {
const cell = (node) => node.classList?.contains("jp-Cell");
if (changes.some(({ target, addedNodes }) => target.closest(".jp-MarkdownCell") || [...addedNodes].some(cell))) due ||= setTimeout(look, 50);
});
watch.observe(panel.content.node, { childList: true, subtree: true });
panel.disposed.connect(() => { watch.disconnect(); clearTimeout(due); });
},
});
}
const OPEN = "tablestore:open-cockpit", INSERT = "tablestore:insert-below", SHOW = "tablestore:lakes", ADD = "tablestore:add-lake", TAB = "tablestore:restored-cockpit";
const STATE = "tablestore:lakes", FOLDER = new Set(["snapshots", "tags", "branches"]);
const DRAWN = '<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 16 16"><g class="jp-icon3" fill="#616161"><path d="M2 3h5v2H2z"/><path d="M4 7h8v2H4z"/><path d="M2 11h12v2H2z"/></g></svg>';
const SHARED = ["@lumino/widgets", "@lumino/coreutils", "@lumino/signaling", "@lumino/dragdrop", "@jupyterlab/apputils", "@jupyterlab/outputarea", "@jupyterlab/ui-components"];
function addCommands(app, lakes, show) {
const add = (id, label, caption, execute, more = {}) => app.commands.addCommand(id, { label, caption, execute, ...more });
add(SHOW, "Lakes", "Lakes, their tables, snapshots, tags and branches", show, { icon: lakes.parts.icon });
add(OPEN, "Open Cockpit of the Chosen Lake Entry", "Opens the cockpit in a tab", () => lakes.open());
add(INSERT, "Insert Code of the Chosen Lake Entry Below", "Inserts a cell below the active one", () => lakes.insert());
add(ADD, "Add Lake by Path…", "Puts the cursor into the path field of the sidebar", () => { show(); lakes.path.focus(); });
}
function addSidebar(app, parts, { common, notebooks, launcher, palette, state, restorer }) {
const kernels = new Kernels({ app, notebooks, ...parts });
const cockpits = new Cockpits(app, kernels, common, parts), lakes = new Lakes(parts, app, kernels, cockpits, notebooks, state);
lakes.restore();
if (restorer) cockpits.restoreBy(restorer);
class Side extends parts.Widget {
onAfterShow() { lakes.shown = true; lakes.refresh(); }
onAfterHide() { lakes.shown = false; }
onActivateRequest() { lakes.focus(); }
}
const side = new Side({ node: lakes.node });
side.id = "tablestore-lakes";
side.title.icon = parts.icon;
side.title.caption = "Lakes";
app.shell.add(side, "left", { rank: 900 });
restorer?.add(side, side.id);
addCommands(app, lakes, () => app.shell.activateById(side.id));
launcher?.add({ command: SHOW, category: "Notebook", rank: -1, kernelIconUrl: `data:image/svg+xml,${encodeURIComponent(DRAWN)}` });
for (const command of [SHOW, ADD, OPEN, INSERT]) palette?.addItem({ command, category: "Lakes" });
}
async function plugins() {
const { IRenderMimeRegistry } = await use("@jupyterlab/rendermime"), { INotebookTracker } = await use("@jupyterlab/notebook");
const { ILabShell, ILayoutRestorer } = await use("@jupyterlab/application");
const token = async (module, name) => { try { return (await use(module))[name]; } catch { return null; } };
const optional = [ILabShell, ILayoutRestorer, await token("@jupyterlab/launcher", "ILauncher"),
await token("@jupyterlab/apputils", "ICommandPalette"), await token("@jupyterlab/statedb", "IStateDB")];
const places = ["shell", "restorer", "launcher", "palette", "state"].filter((_, at) => optional[at]);
return [{
id: `${NAME}:plugin`, description: "Saved views as pictures, words of lessons explained, and the sidebar Lakes.", autoStart: true,
requires: [IRenderMimeRegistry, INotebookTracker], optional: optional.filter(Boolean),
async activate(app, common, notebooks, ...given) {
const found = Object.fromEntries(places.map((place, at) => [place, given[at]]));
document.head.append(el("style", {}, STYLE));
const lumino = await use("@lumino/widgets");
showSavedViews(app, common, lumino);
offerToRestore(app, notebooks);
explainLessons(app);
if (!found.shell) return; // Notebook 7: one document a page
const parts = await modules(SHARED);
const icon = new parts.LabIcon({ name: "tablestore:lakes", svgstr: DRAWN });
addSidebar(app, { ...parts, icon }, { common, notebooks, ...found });
},
}];
}
(window._JUPYTERLAB ||= {})[NAME] = {
init(given) { scope = given; },
async get() { const made = await plugins(); return () => ({ __esModule: true, default: made }); },
};
})();
