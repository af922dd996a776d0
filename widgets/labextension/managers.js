// A widget manager for a registry of renderers that has none: ipywidgets gives one to each notebook, and to nobody else.
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
// It looks once, when the notebook opens: one that is opened with no kernel would show no view, whatever kernel it is given.
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
