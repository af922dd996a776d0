// Workbench: places its parts, which are views of their own; opens further ones on demand.
function renderWorkbench({ model, el, host, signal }) {
  const place = (name) => lwEl("div", { class: "lw-part lw-part-" + name });
  const places = { timeline: place("timeline"), health: place("health"), levels: place("levels"), controls: place("controls"), amplification: place("amplification") };
  const name = lwEl("h2", {}), kind = lwEl("span", { class: "lw-sub" }), facts = lwEl("span", { class: "lw-fact" });
  const bucket = lwEl("select", { "aria-label": "bucket", onchange: () => { lwSet(model, { opened: bucket.value }); turn("bucket"); } });
  // What has happened since the table was read, and what of its history is read now.
  const live = () => !model.get("static");
  const tell = (verb) => { if (live() && !root.classList.contains("lw-lost")) model.send({ verb }); };
  const newer = lwEl("button", { type: "button", class: "lw-newer", hidden: true, title: "read the table again and go to the newest commit", onclick: () => tell("newest") });
  const reading = lwEl("span", { class: "lw-sub lw-reading" });
  const news = lwEl("span", { role: "status" }, reading, newer);
  const head = lwEl("div", { class: "lw-bench-head" }, name, bucket, kind, lwEl("span", { class: "lw-gap" }), news, facts);
  const able = lwEl("div", { class: "lw-able", hidden: true });
  const main = lwEl("div", { class: "lw-bench-main" }, places.levels, places.controls, places.amplification);
  // A table of many buckets: its health first, then one bucket; a tab each.
  const scope = lwEl("div", { class: "lw-scope", role: "tablist", "aria-label": "table or bucket", hidden: true });
  const tab = (name) => lwEl("button", { type: "button", role: "tab", "data-scope": name, onclick: () => turn(name) });
  const tableTab = tab("table"), bucketTab = tab("bucket");
  scope.append(tableTab, bucketTab);
  const strip = lwEl("div", { class: "lw-tabs", role: "toolbar", "aria-label": "further views" });
  const trouble = lwEl("div", { class: "lw-error", role: "alert", hidden: true });
  const drawer = lwEl("div", { class: "lw-drawer" });
  const root = lwEl("section", { class: "lw lw-bench", "aria-label": "workbench", "data-lm-suppress-shortcuts": "true" },
    head, able, places.timeline, scope, places.health, main, strip, trouble, drawer);
  el.replaceChildren(root);
  let turned = "table", asked = "";
  const mounted = new Set(), offs = [], over = new AbortController();
  if (signal) signal.addEventListener("abort", () => over.abort());
  const on = (event, fn) => { model.on(event, fn); offs.push(() => model.off(event, fn)); };

  async function mount() {
    const parts = model.get("parts") || {};
    for (const [part, ref] of Object.entries(parts)) {
      if (mounted.has(part)) continue;
      mounted.add(part);
      if (!places[part]) drawer.append((places[part] = place(part)));
      const child = await host.getWidget(ref);
      if (!over.signal.aborted) await child.render({ el: places[part], signal: over.signal });
    }
    places.controls.hidden = !parts.controls;
    main.classList.toggle("lw-alone", !parts.controls);
    scopes();
    show();
    reveal();
  }
  function turn(name) {
    turned = name;
    scopes();
  }
  function scopes() {
    const many = !!(model.get("parts") || {}).health, table = many && turned === "table";
    scope.hidden = !many;
    places.health.hidden = main.hidden = false;
    if (!many) return;
    (table ? main : places.health).hidden = true;
    for (const [button, on, panel] of [[tableTab, table, places.health], [bucketTab, !table, main]]) {
      button.setAttribute("aria-selected", String(on));
      button.tabIndex = on ? 0 : -1;
      panel.setAttribute("role", "tabpanel");
      panel.setAttribute("aria-label", button.dataset.scope);
    }
    tableTab.textContent = "The whole table";
    lwPlace(bucketTab, `Bucket ${model.get("opened").replace(/^\//, "")}`, "/");
  }
  // A bucket that is asked for, or worked with before the table's health is there, is shown.
  for (const event of ["pointerdown", "keydown"]) main.addEventListener(event, () => { if (!(model.get("parts") || {}).health) turned = "bucket"; });
  root.addEventListener("lw-open", () => turn("bucket"));
  lwKeys(scope, { ArrowLeft: () => { turn("table"); tableTab.focus(); }, ArrowRight: () => { turn("bucket"); bucketTab.focus(); } });
  function since() {
    const n = model.get("newer") || 0, words = model.get("reading") || "";
    newer.hidden = !n;
    newer.textContent = `${lwShort(n)} newer commit${n === 1 ? "" : "s"}`;
    reading.textContent = reading.title = words;
    reading.hidden = !words;
    if (n && model.get("watch")) tell("refresh");
  }
  let there = null;
  root.addEventListener("lw-files", (event) => { there = event.detail; headings(); });
  // The facts of the head, at the moment that the levels show: what they drew by themselves they have counted.
  function factsNow(h) {
    if (!there) return h.facts || [];
    const all = (name) => there.reduce((sum, c) => sum + c[name], 0), [files, noun] = lwPlural(all("files"), "file").split(" ");
    return [...(h.facts || []).slice(0, 1), [files, noun], [lwBytes(all("bytes")), ""], [lwShort(all("rows")), "rows stored"]];
  }
  function headings() {
    const h = model.get("head") || {};
    name.textContent = name.title = h.name || "";
    kind.textContent = kind.title = h.kind || "";
    facts.replaceChildren(...factsNow(h).flatMap(([number, noun], i) => [i ? " · " : "", lwEl("b", {}, number), noun ? " " + noun : ""]));
    const warns = (h.able || []).some((a) => !a[1]);
    able.hidden = !h.warning;
    able.classList.toggle("lw-warns", warns);
    const chips = (h.able || []).map(([verb, works, why]) => lwEl("span", { class: "lw-chip" + (works ? "" : " lw-no"), title: why || "works" }, (works ? "✓ " : "– ") + verb));
    const reasons = (h.reasons || []).map(([verb, why]) => lwEl("code", { title: why }, verb + ": " + why));
    able.replaceChildren(lwEl("b", {}, (warns ? "▲ " : "") + (h.warning || "")), lwEl("span", { class: "lw-gap" }), ...chips, ...reasons);
    const ids = h.buckets || [];
    bucket.hidden = !ids.length;
    if (bucket.options.length !== ids.length) {
      bucket.replaceChildren(...ids.map((id) => lwEl("option", { value: id }, id.startsWith("/") ? "bucket " + id.slice(1) : id)));
    }
    bucket.value = model.get("opened");
    scopes();
  }
  function tabs() {
    const kids = (model.get("tools") || []).map(([id, title, refused]) => lwEl("button", {
      type: "button", "data-tool": id, disabled: !!refused, title: refused || "open " + title,
      onclick: () => { asked = model.get("tool") === id ? "" : id; lwSet(model, { tool: asked }); reveal(); } }, title));
    strip.replaceChildren(lwEl("span", { class: "lw-sub" }, "More"), ...kids);
    show();
  }
  // A view that was just asked for comes where the eye is, once it is there.
  function reveal() {
    const part = places[asked];
    if (!part || part.hidden || !part.childElementCount) return;
    asked = "";
    const room = window.innerHeight, box = part.getBoundingClientRect();
    if (box.bottom > room || box.top < 0) strip.scrollIntoView({ block: "start" });
  }
  function show() {
    const tool = model.get("tool"), words = model.get("trouble");
    for (const b of strip.querySelectorAll("button")) {
      b.setAttribute("aria-expanded", String(b.dataset.tool === tool));
    }
    for (const part of drawer.children) part.hidden = part !== places[tool];
    trouble.hidden = !words;
    trouble.replaceChildren(lwEl("b", {}, "✕ This view could not be opened."), lwEl("code", {}, words || ""));
    root.dataset.tool = tool && mounted.has(tool) ? tool : "";
  }
  on("change:parts", mount);
  on("change:head", headings);
  on("change:opened", headings);
  on("change:tools", tabs);
  on("change:tool", show);
  on("change:trouble", show);
  for (const trait of ["newer", "reading", "watch"]) on("change:" + trait, since);
  headings(); tabs(); mount(); since();
  tell("shown");
  const unwatch = lwWatchKernel(model, root);
  return () => { over.abort(); unwatch(); offs.forEach((off) => off()); tell("hidden"); };
}
