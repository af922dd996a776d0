// Running cells of a notebook by way of JupyterLab's own commands.
const RUN = ["Run this cell", "runs the cell of this picture"];
const RUN_ABOVE = ["Run all above", "runs every cell above, then the cell of this picture"];
const RESTORE = ["Restart and restore", "restarts the kernel, runs every cell above, then the cell of this picture"];
// Also where the notebook was opened to have none: the kernel that it names, else the default.
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
// A view that has lost its kernel asks who can bring it back (widgets/kit/kernel.js).
function offerToRestore(app, notebooks) {
  document.addEventListener("tablestore-lost", ({ target, detail }) => {
    const panel = notebooks.find((each) => each.node.contains(target));
    if (!panel) return;
    detail.offer(...RESTORE, () => run(app, panel, target, { above: true, restart: true }), true);
    detail.offer(...RUN, () => run(app, panel, target));
  });
}
