// How the levels of one snapshot become those of the next: files that stay slide, files that go fade where they
// were, new ones fade in; a compaction is played as a merge. Nothing moves while one scrubs or wants no motion.
const MOTION = { step: 240, merge: 900, rapid: 200, most: 600, ease: "cubic-bezier(.2,0,0,1)" };
function levelsMotion(host) {
  let last = -Infinity;
  const still = (count) => {
    const now = performance.now(), rapid = now - last < MOTION.rapid;
    last = now;
    return rapid || lwStill() || count > MOTION.most || !host.animate;
  };
  const left = (g) => g.firstElementChild.getBoundingClientRect().left;
  function ghost(svg, g) {
    const gone = g.cloneNode(true);
    gone.classList.replace("file", "gone");
    gone.setAttribute("aria-hidden", "true");
    svg.append(gone);
    return gone;
  }
  function slide(before, files) {
    for (const g of files) {
      const old = before.get(g.dataset.name), by = old ? old.x - left(g) : 0;
      if (Math.abs(by) > 0.5) g.animate([{ transform: `translateX(${by}px)` }, { transform: "none" }], { duration: MOTION.step, easing: MOTION.ease });
    }
  }
  function fade(svg, fresh, gone) {
    const time = { duration: MOTION.step, easing: MOTION.ease };
    fresh.forEach((g) => g.animate([{ opacity: 0 }, { opacity: 1 }], time));
    gone.forEach(({ g }) => { const copy = ghost(svg, g); copy.animate([{ opacity: 1 }, { opacity: 0 }], time).onfinish = () => copy.remove(); });
  }
  // 150 ms the inputs get rings, 450 ms the frontier sweeps over the keys and inputs fade behind it, 300 ms they go.
  function merge(svg, fresh, gone, plot) {
    const copies = gone.map(({ g }) => ghost(svg, g)), boxes = copies.map((c) => c.firstElementChild.getBBox());
    const low = Math.min(...boxes.map((b) => b.x)), high = Math.max(...boxes.map((b) => b.x + b.width));
    const time = { duration: MOTION.merge, easing: "linear", fill: "both" };
    const when = (x) => 1 / 6 + (Math.min(Math.max((x - low) / Math.max(high - low, 1), 0), 1)) / 2;
    copies.forEach((copy, i) => {
      const b = boxes[i], end = when(b.x + b.width);
      copy.append(lwMark("rect", { x: b.x - 2.5, y: b.y - 2.5, width: b.width + 5, height: b.height + 5, rx: 4, fill: "none",
        stroke: "var(--lw-compact)", "stroke-width": 1.75 }));
      copy.animate([{ opacity: 1 }, { opacity: 1, offset: when(b.x) }, { opacity: 0.22, offset: end }, { opacity: 0.22, offset: 2 / 3 },
        { opacity: 0 }], time).onfinish = () => copy.remove();
    });
    fresh.forEach((g) => {
      const b = g.firstElementChild.getBBox();
      g.animate([{ opacity: 0 }, { opacity: 0, offset: when(b.x) }, { opacity: 1, offset: Math.min(when(b.x + b.width) + 0.01, 1) }, { opacity: 1 }], time);
    });
    const edge = lwMark("rect", { x: low - 1, y: plot[1] - 4, width: 2, height: plot[3], fill: "var(--lw-ink)" });
    svg.append(edge);
    edge.animate([{ transform: "none", opacity: 0 }, { transform: "none", opacity: 1, offset: 1 / 6 },
      { transform: `translateX(${high - low}px)`, opacity: 1, offset: 2 / 3 }, { transform: `translateX(${high - low}px)`, opacity: 0 }], time)
      .onfinish = () => edge.remove();
  }
  return {
    // Where each file stands now, to be given to `play` after the next picture.
    places: (files) => new Map(files.map((g) => [g.dataset.name, { x: left(g), g }])),
    play(svg, before, files, { level, plot }) {
      if (still(files.length + before.size) || !before.size) return;
      const now = new Set(files.map((g) => g.dataset.name));
      const fresh = files.filter((g) => !before.has(g.dataset.name));
      const gone = [...before].filter(([name]) => !now.has(name)).map(([, place]) => place);
      slide(before, files);
      const merged = gone.length && fresh.length && fresh.every((g) => level(g.dataset.name) > 0);
      if (merged) merge(svg, fresh, gone, plot);
      else fade(svg, fresh, gone);
    },
  };
}
