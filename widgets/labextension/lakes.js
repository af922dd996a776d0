// The sidebar: lakes, databases, tables, their snapshots, tags and branches, as a tree. All names are set as text.
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
  // What was added before; the state is there only after JupyterLab has started.
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
  // Whose kernel is asked. One of its own is started only when there is a path to ask about.
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
  // The title of a cockpit: its table, and the snapshot, tag or branch.
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
  // Pressed and moved by 5 px, an entry is dragged as a cell.
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
