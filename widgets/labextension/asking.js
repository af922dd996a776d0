// Whom the sidebar asks: the kernel of the notebook in front, else one of its own that no notebook shows. A busy kernel is not
// asked, an answer that does not come is given up; nothing queues behind a user's cell.
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
  // The notebook whose kernel is asked, if it is one.
  notebook() {
    const panel = this.notebooks?.currentWidget;
    return !this.ownPreferred && panel && !panel.isDisposed && panel.sessionContext.session?.kernel ? panel : null;
  }
  // The hidden kernel's session, if one runs: also from before the page was loaded again.
  async running() {
    const { sessions } = this.app.serviceManager;
    await sessions.ready;
    await sessions.refreshRunning();
    return [...sessions.running()].find((each) => each.type === KIND);
  }
  get ownRuns() { return !!this.hidden?.session?.kernel; }
  // The hidden kernel: one connection to it, whoever asks first.
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
  // One question after another: what a kernel is still doing for us does not count as busy.
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
