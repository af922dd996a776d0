// The cockpit of a place in a tab of its own, by the kernel that the sidebar asks.
class Cockpits {
  constructor(app, kernels, common, parts) {
    Object.assign(this, { app, kernels, common, parts });
    this.registries = new WeakMap();
  }
  // Outputs of the hidden kernel need a widget manager of their own.
  async registry(context) {
    const panel = this.kernels.notebook();
    if (panel) return panel.content.rendermime;
    if (this.registries.has(context)) return this.registries.get(context);
    const { registerWidgetManager } = await use("@jupyter-widgets/jupyterlab-manager");
    const registry = this.common.clone(), { Signal } = this.parts, url = async (path) => path;
    const nothing = { getMetadata: () => undefined, setMetadata() {}, dirty: false };
    registerWidgetManager({ sessionContext: context, saveState: new Signal({}), path: "", model: nothing,
      urlResolver: { resolveUrl: url, getDownloadUrl: url } }, registry, []);
    for (let i = 0; registry.getFactory(LIVE) === this.common.getFactory(LIVE); i++) {
      if (i > 400) throw Error("the widget manager did not come up");
      await sleep(50);
    }
    this.registries.set(context, registry);
    return registry;
  }
  async open(place, title) {
    const { SimplifiedOutputArea, OutputAreaModel, OutputArea, MainAreaWidget, UUID } = this.parts;
    const panel = this.kernels.notebook(), context = await this.kernels.context();
    const kernel = await this.kernels.free(context), rendermime = await this.registry(context), token = UUID.uuid4();
    const area = new SimplifiedOutputArea({ model: new OutputAreaModel({ trusted: true }), rendermime, contentFactory: OutputArea.defaultContentFactory });
    area.addClass("tsw-cockpit");
    area.node.tabIndex = -1;
    const main = new MainAreaWidget({ content: area });
    main.id = `tsw-${token}`;
    main.title.label = title;
    main.title.caption = `Cockpit of ${title}`;
    main.title.icon = this.parts.icon;
    main.title.closable = true;
    const fill = () => {
      const future = context.session.kernel.requestExecute({ code: `${MODULE}.show(${python({ place, token })})`, store_history: false, stop_on_error: false, allow_stdin: false }, false);
      area.future = future;
      return future.done;
    };
    main.node.addEventListener("tablestore-lost", ({ detail }) => detail.offer("Open again", "opens the cockpit in the kernel that runs now", async () => {
      if (!context.session?.kernel) await context.startKernel();
      await fill();
    }, true));
    const gone = () => main.dispose(); // a notebook's widget manager goes with it
    panel?.disposed.connect(gone);
    main.disposed.connect(() => {
      panel?.disposed.disconnect(gone);
      const left = context.isDisposed ? null : context.session?.kernel;
      if (left && left.status !== "dead") left.requestExecute({ code: `${MODULE}.close(${JSON.stringify(token)})`, silent: true, store_history: false });
    });
    this.app.shell.add(main, "main");
    this.app.shell.activateById(main.id);
    const waits = el("div", { class: "tsw tsw-bar", role: "status" }, `Reading ${title} …`);
    area.node.prepend(waits);
    try { await fill(); } finally { waits.remove(); }
  }
}
