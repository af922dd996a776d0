// The cockpit of a place in a tab of its own, by the kernel that the sidebar asks. A page that is loaded again has its tabs
// again: filled where their kernel still runs, else with a button that starts one.
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
  // By the same notebook's kernel, or by the hidden one; started if need be.
  async again(tab) {
    const path = tab.opened.notebook;
    const panel = path ? this.notebook(path) || (await this.app.commands.execute("docmanager:open", { path })) : null;
    await panel?.sessionContext.ready;
    const context = panel ? panel.sessionContext : await this.kernels.own();
    if (!context.session?.kernel) await startKernel(context);
    await this.fill(tab, panel, context);
  }
  // Outputs of the hidden kernel need a widget manager of their own; a notebook's may be on its way.
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
  // The empty tab, with a line of words.
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
  // The cockpit stands, or the kernel said why not.
  refused(tab, area) {
    const outputs = area.model.toJSON();
    if (outputs.some((each) => each.data)) return tab.say("");
    area.dispose();
    const said = outputs.map((each) => [each.text ?? each.evalue ?? ""].flat().join("")).join(" ").trim();
    this.offer(tab, `✕ ${said || "the kernel gave no answer"}`);
  }
  // The tab goes with its notebook, whose widget manager it uses; the kernel forgets a view whose tab is closed.
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
