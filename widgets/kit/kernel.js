// Where nobody answers a view any more it is dimmed, takes no input, and says why. The kernel is seen by way of the widget
// manager where it has one (JupyterLab, Notebook 7); elsewhere nothing is watched. Who can run cells says so: the event
// `tablestore-lost` goes up from the view, and a listener `offer`s buttons, as the JupyterLab extension does.
const LW_LOST = {
  restarting: "The kernel was restarted", autorestarting: "The kernel died and was started anew",
  terminating: "The kernel was shut down", dead: "The kernel died",
};
function lwWatchKernel(model, root) {
  const session = root.parentElement?.closest(".lw-bench") ? null : model.widget_manager?.context?.sessionContext;
  if (!session?.statusChanged || !session.kernelChanged) return () => {};
  const kernel = session.session?.kernel?.id, words = lwEl("b", {}), doing = lwEl("span", { class: "lw-lost-doing" });
  const notice = lwEl("div", { class: "lw-lost-notice", role: "status" }, words, lwEl("span", {}, "Below is what it drew last."), doing);
  const offer = (text, title, act, primary = false) => {
    const button = lwButton("", title, async () => {
      for (const each of doing.children) each.disabled = true;
      try { await act(); } catch (e) { words.textContent = `✕ ${e.message}`; }
      for (const each of doing.children) each.disabled = false;
    }, { text, primary });
    doing.append(button);
  };
  function lost(why) {
    words.textContent = "▲ " + why + ".";
    if (notice.isConnected) return;
    for (const part of root.children) part.inert = true;
    root.classList.add("lw-lost");
    root.prepend(notice);
    doing.replaceChildren();
    root.dispatchEvent(new CustomEvent("tablestore-lost", { bubbles: true, detail: { offer } }));
    if (!doing.children.length) doing.append("Run the cell again to go live.");
  }
  const onStatus = (_, status) => { if (LW_LOST[status]) lost(LW_LOST[status]); };
  const onKernel = (_, { newValue }) => {
    if (!newValue) lost(notice.isConnected ? words.textContent.slice(2, -1) : LW_LOST.terminating);
    else if (newValue.id !== kernel) lost("The notebook has another kernel");
  };
  session.statusChanged.connect(onStatus);
  session.kernelChanged.connect(onKernel);
  if (!kernel) lost("The notebook has no kernel");
  return () => { session.statusChanged.disconnect(onStatus); session.kernelChanged.disconnect(onKernel); };
}
