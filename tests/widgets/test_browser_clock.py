"""One clock: whatever is clicked, pressed, flushed or stepped, all panels show one moment of the engine.

The views are live: a page in Chromium whose models are those of this process, joined by a function of the
page in place of a kernel's channel.
"""

import base64
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tablestore as ts
import widgets
from tablestore.insight.simulator import Simulator, Workload
from tests.browsing import Page, needs_browser
from widgets.kit import assets

pytestmark = needs_browser
CLICKS = 8
"""Moves a round: 5 rounds are those of CI, `--rounds 38` are 300."""
CHANNEL = """
const lwLive = [];
function liveModel(i, state) {
  const listeners = {}, dirty = new Set();
  const fire = (name) => [...(listeners[name] || [])].forEach((fn) => fn());
  const raw = (v) => (v && v.lw64 !== undefined ? Uint8Array.from(atob(v.lw64), (c) => c.charCodeAt(0)) : v);
  for (const k of Object.keys(state)) state[k] = raw(state[k]);
  const model = {
    get: (k) => state[k],
    set: (k, v) => { if (JSON.stringify(state[k]) !== JSON.stringify(v)) { state[k] = v; dirty.add(k); } },
    save_changes() {
      const changed = Object.fromEntries([...dirty].map((k) => [k, state[k]]));
      dirty.clear();
      if (!Object.keys(changed).length) return;
      for (const k of Object.keys(changed)) fire("change:" + k);
      window.kernel(i, "set", changed);
    },
    on: (name, fn) => (listeners[name] = listeners[name] || []).push(fn),
    off: (name, fn) => { listeners[name] = (listeners[name] || []).filter((f) => f !== fn); },
    send: (content) => window.kernel(i, "send", content),
    take: (k, v) => { state[k] = raw(v); fire("change:" + k); },
  };
  return (lwLive[i] = model);
}
function liveChanges(changes) { for (const [i, name, value] of changes) lwLive[i].take(name, value); }
"""


class Channel:
    """Joins the widgets of this process to a page."""

    def __init__(self, page: Page, bench: widgets.Workbench) -> None:
        self.page, self.views, self._asked = page.page, list(bench.parts.items()), list[tuple[Any, ...]]()
        self._changed: dict[tuple[int, str], Any] = {}
        for at, (_, view) in enumerate(self.views):
            for name in view.keys:
                view.observe(lambda change, at=at: self._note(at, change["name"], change["new"]), name)
        self.page.expose_function("kernel", lambda *call: self._asked.append(call))

    def _note(self, at: int, name: str, value: Any) -> None:
        if not name.startswith("_") and name not in ("assets", "layout", "tabbable", "tooltip"):
            self._changed[at, name] = value

    def open(self, folder: Path) -> None:
        places = "".join(f'<div data-part="{name}"></div>' for name, _ in self.views)
        views = "".join(assets.scope(name) for name in ("timeline", "levels", "controls", "amplification"))
        style = f"<style>{assets.sheet()} body {{ margin: 0 }}</style>"
        script = f"<script>{assets.library()}const lwViews = {{}};{views}{CHANNEL}</script>"
        text = f'<!doctype html><meta charset="utf-8"><link rel="icon" href="data:,">{style}{places}{script}'
        file = folder / "live.html"
        file.write_text(text, encoding="utf-8")
        self.page.goto(file.as_uri())
        for at, (name, view) in enumerate(self.views):
            state = {key: sent(value) for key, value in view.get_state().items() if key[0] != "_"}
            state |= {"static": False, "assets": None, "layout": None}
            self.page.evaluate(
                "([i, entry, part, state]) => lwViews[entry]({ model: liveModel(i, state),"
                " el: document.querySelector(`[data-part=${part}]`) })",
                [at, assets.renderer(name), name, state],
            )
        self.settle()

    def settle(self) -> None:
        """Carry what the page and the widgets say to each other until both are silent: for three of the
        page's own frames, which come late where the machine is busy."""
        silent = 0
        while silent < 3:
            self.page.evaluate("() => new Promise((d) => requestAnimationFrame(() => setTimeout(d, 15)))")
            silent = 0 if self._asked or self._changed else silent + 1
            while self._asked:
                at, kind, content = self._asked.pop(0)
                view = self.views[at][1]
                if kind == "send":
                    view._handle_custom_msg(content, [])
                else:
                    shown = {k: v for k, v in content.items() if k in view.keys}
                    for name, value in shown.items():
                        setattr(view, name, tuple(value) if isinstance(value, list) else value)
            changes, self._changed = self._changed, {}
            if changes:
                said = [[at, name, sent(value)] for (at, name), value in changes.items()]
                self.page.evaluate("(changes) => liveChanges(changes)", said)


def sent(value: Any) -> Any:
    if isinstance(value, bytes):
        return {"lw64": base64.b64encode(value).decode()}
    return list(value) if isinstance(value, tuple) else value


@pytest.fixture(params=["table", "simulator"])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> object:
    options = {"num-sorted-run.compaction-trigger": 3}
    if request.param == "simulator":
        simulator = Simulator(Workload(rows=300, keys=3_000), options, keep=60)
        for _ in range(12):
            simulator.step()
        return simulator
    given = {"bucket": 1, "write-only": "true"} | options
    table = ts.connect(tmp_path).create_table(
        "shop.orders", schema={"k": ts.BIGINT}, primary_key=["k"], options=given
    )
    for n in range(9):
        table.write({"k": list(range(n * 20, n * 20 + 90))})
    return table.with_options({"write-only": "false"})


def moves(channel: Channel, bench: widgets.Workbench, source: Any, chance: random.Random) -> Iterator[str]:
    """Something random is done; what it was."""
    page = channel.page
    slider = {
        name: page.locator(f".lw-{name}").get_by_role("slider").first
        for name in ("timeline", "amplification")
    }

    def key(name: str, pressed: str) -> Callable[[], None]:
        return lambda: (slider[name].focus(), page.keyboard.press(pressed))[0]

    def press(label: str) -> Callable[[], None]:
        def act() -> None:
            button = page.locator(".lw-controls").get_by_role("button", name=label)
            if button.is_visible() and button.is_enabled():
                button.click()
                channel.settle()
                bench.controls.wait(120)
                bench.amplification.wait(120)

        return act

    def write() -> None:
        if isinstance(source, ts.Table):
            low = chance.randrange(500)
            source.with_options({"write-only": "true"}).write({"k": list(range(low, low + 50))})
            bench.refresh()
            bench.amplification.wait(120)

    def click() -> None:
        box = slider["timeline"].bounding_box()
        page.mouse.click(box["x"] + box["width"] * chance.random(), box["y"] + box["height"] * 0.6)

    acts = {
        **{
            f"{name} {pressed}": key(name, pressed)
            for name in slider
            for pressed in ("ArrowLeft", "ArrowRight", "Home", "End", "Shift+ArrowLeft")
        },
        "step": press("carry out this compaction"),
        "flush": press("write one flush"),
        "back to now": press("go to the newest snapshot"),
        "write": write,
        "click": click,
    }
    while True:
        name = chance.choice(list(acts))
        acts[name]()
        channel.settle()
        bench.amplification.wait(120)
        channel.settle()
        yield name


@pytest.mark.sample(1)
def test_all_panels_show_one_moment(page: Page, tmp_path: Path, source: Any, seeds: tuple[int, ...]) -> None:
    bench = widgets.Workbench(source).wait(120)
    channel = Channel(page, bench)
    channel.open(tmp_path)
    page.page.locator(".lw-levels[data-history*='-']").wait_for(state="attached")
    for seed in seeds:
        done = moves(channel, bench, source, random.Random(seed))
        for _ in range(CLICKS):
            what = next(done)
            at = bench.timeline.snapshot
            wanted = source.inspect.levels(snapshot=at)
            newest = source.inspect.commits()["snapshot_id"][-1].as_py()
            said = page.page.evaluate(
                "() => Object.fromEntries(['levels', 'controls', 'amplification']"
                ".map((n) => [n, { ...document.querySelector('.lw-' + n).dataset }]))"
            )
            assert {part["snapshot"] for part in said.values()} == {str(at)}, (seed, what, said)
            pill = page.page.locator(".lw-timeline .cursor text").text_content()
            assert pill.startswith(f"#{at} "), (seed, what, pill)
            runs = len(set(wanted["run"].to_pylist()))
            assert said["levels"]["files"] == str(wanted.num_rows), (seed, what, at)
            assert page.text(".lw-levels .lw-sub").startswith(f"{runs} sorted run"), (seed, what, at)
            assert said["amplification"]["values"].split("|")[1] == str(runs), (seed, what, at)
            assert bool(said["controls"]["past"]) == (at != newest), (seed, what, at, newest)
            if at != newest:
                assert said["controls"]["past"].startswith(f"#{at + 1} "), (seed, what)
            state = bench.state()
            sizes = sum(wanted["bytes"].to_pylist())
            assert (state.runs, state.count, state.bytes) == (runs, wanted.num_rows, sizes)
    bench.close()
