// An output of ours in a notebook: the live view if the kernel has it, else its picture and how to go live. JupyterLab's own
// renderer of widgets would say "model not found".
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
    // The widget manager; undefined if it is not there yet, null if there is nothing to wait for.
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
    // A notebook saved with the state of its widgets has models that no kernel knows.
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
