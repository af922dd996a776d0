// The plugin: saved pictures and lost kernels everywhere, the sidebar with its commands where there is a JupyterLab shell.
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
  // In the first section, whose cards show pictures by address; before the kernels.
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
