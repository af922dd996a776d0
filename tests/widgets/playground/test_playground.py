"""The views of a page that plays, driven without Arrow and numpy: every picture is the kernel's.

The other side is a process that has nothing but the archive of the page on its path.
"""

from __future__ import annotations

import base64
import io
import json
import random
import subprocess
import sys
import threading
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tablestore as ts
from tests.suite import counterparts
from tests.tables import TableSpec
from widgets import CompactionControls
from widgets.kit import jobs
from widgets.playground import folder, own_table, pyodide
from widgets.playground.own_table import bucket_recipe
from widgets.playground.recipes import EXAMPLES, views_of

DRIVE = """
import sys
if sys.version_info < (3, 14):  # a browser has compression.zstd
    sys.path.append(sys.argv[2])
    from backports import zstd
    sys.path.pop()
sys.path[:0] = [f"{sys.argv[1]}/columns", sys.argv[1]]
from widgets.playground import kernel
for line in sys.stdin:
    verb, text = line.split(" ", 1)
    print(kernel.begin(text) if verb == "begin" else kernel.receive(text))
"""
DRAW = """
import json, sys
sys.path.insert(0, sys.argv[1])
import numpy as np
draws = np.random.default_rng(int(sys.argv[2]))
found = [draws.random((3, 4)), draws.integers(0, 1000, 50), draws.integers(0, 7, (2, 3))]
found += [draws.exponential(5.0, 2000), draws.normal(3.0, 2.0, 2000), draws.random(2)]
print(json.dumps([each.tolist() for each in found]))
"""
SITE = Path(np.__file__).parents[1]
ORDERS = [
    [{"k": 1, "v": 2, "w": None}, {"k": 3, "v": 3, "w": "x"}],
    [{"k": 1, "v": 1, "w": "y"}, {"k": 2, "v": 5, "w": "z"}],
]


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The archive of a page, as the browser unpacks it."""
    target = tmp_path_factory.mktemp("engine")
    zipfile.ZipFile(io.BytesIO(folder.engine_zip())).extractall(target)
    return target


def driven(unpacked: Path, *messages: tuple[str, Any]) -> list[Any]:
    """What the page's kernel answers to messages, in a process that has neither Arrow nor numpy."""
    lines = "".join(f"{verb} {json.dumps(value)}\n" for verb, value in messages)
    command = [sys.executable, "-S", "-P", "-c", DRIVE, str(unpacked), str(SITE)]
    done = subprocess.run(command, input=lines, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def as_sent(value: Any) -> Any:
    return json.loads(json.dumps(value, default=str))


@pytest.mark.large
def test_a_game_played_in_a_page_shows_the_pictures_of_a_kernel(
    unpacked: Path, seeds: tuple[int, ...]
) -> None:
    for seed in seeds:
        recipe = {"kind": "game", "stage": 1 + seed % 5, "seed": seed}
        (game,) = views_of(recipe)
        chance = random.Random(seed)
        acts = [chance.choice(("tick", "tick", "tick", "flush", "step", "lower", "raise")) for _ in range(12)]
        (begun,), *answers = driven(
            unpacked,
            ("begin", recipe),
            *(("receive", {"id": "w1", "content": {"verb": act}}) for act in acts),
        )
        assert begun["id"] == "w1"
        assert begun["state"]["frame"] == as_sent(game.frame)
        for act, answer in zip(acts, answers, strict=True):
            game._on_verb(None, {"verb": act}, [])
            seen = answer.get("w1", {})
            assert seen.get("now", as_sent(game.now)) == as_sent(game.now)
            assert seen.get("frame", as_sent(game.frame)) == as_sent(game.frame)
        assert any("frame" in answer.get("w1", {}) for answer in answers)


def test_levels_and_plan_follow_each_flush_and_step_as_in_a_kernel(
    unpacked: Path, seeds: tuple[int, ...]
) -> None:
    for seed in seeds:
        recipe = {"kind": "tree", "workload": {"kind": "uniform", "rows": 500}, "story": [4], "seed": seed}
        levels, controls = views_of(recipe)
        begun, *answers = driven(
            unpacked,
            ("begin", recipe),
            *(("receive", {"id": "w2", "content": {"verb": verb}}) for verb in ("flush", "step")),
        )
        ids = [each["id"] for each in begun]
        assert [each["state"]["frame"] for each in begun] == [as_sent(v.frame) for v in (levels, controls)]
        shown = {each["id"]: each["state"] for each in begun}
        for verb, answer in zip(("flush", "step"), answers, strict=True):
            getattr(controls, verb)()
            controls.wait(60)
            for name, values in answer.items():
                shown.setdefault(name, {}).update(values)
            assert [shown[name]["frame"] for name in ids] == [as_sent(v.frame) for v in (levels, controls)]
        assert controls.done


def shop(folder: Path, chance: random.Random) -> ts.Table:
    """A table of two buckets, written and compacted by chance, of values that no page holds."""
    options = {"bucket": 2, "num-sorted-run.compaction-trigger": chance.randint(2, 5), "write-only": True}
    spec = TableSpec({"k": ts.BIGINT, "v": ts.STRING}, primary_key=("k",), options=options)
    table = spec.create(folder)
    busy = table.with_options({"write-only": False})
    for _ in range(chance.randint(2, 7)):
        keys = chance.sample(range(4_000), chance.randint(20, 400))
        table.write({"k": keys, "v": [f"secret {k}" for k in keys]})
        if chance.random() < 0.3:
            busy.refresh().compact()
    return busy.refresh()


class AtOnce(threading.Thread):
    """A job of a view that is done when it has begun, as in a page."""

    def start(self) -> None:
        self.run()

    def join(self, timeout: float | None = None) -> None:
        """It is over."""

    def is_alive(self) -> bool:
        """It is over."""
        return False


def test_a_table_is_played_on_in_a_page_as_in_a_kernel_from_its_own_next_pick(
    unpacked: Path, tmp_path: Path, seeds: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "threading", SimpleNamespace(**vars(threading) | {"Thread": AtOnce}))
    for seed in seeds:
        table = shop(tmp_path / str(seed), random.Random(seed))
        recipe = as_sent(bucket_recipe(table, f"/{seed % 2}"))
        assert "secret" not in json.dumps(recipe)
        views = views_of(recipe)
        controls = views[1]
        own = CompactionControls(table, bucket=seed % 2)
        (real,), (played,) = own.model.picks, controls.model.picks
        assert (played.rule, played.reason, played.names) == (real.rule, real.reason, real.names)
        begun, *answers = driven(
            unpacked,
            ("begin", recipe),
            *(("receive", {"id": "w2", "content": {"verb": verb}}) for verb in ("flush", "step")),
        )
        shown = {each["id"]: each["state"] for each in begun}
        assert [state["frame"] for state in shown.values()] == [as_sent(view.frame) for view in views]
        for verb, answer in zip(("flush", "step"), answers, strict=True):
            getattr(controls, verb)()
            controls.wait(60)
            for name, values in answer.items():
                shown.setdefault(name, {}).update(values)
            frames = [shown[each["id"]]["frame"] for each in begun]
            assert frames == [as_sent(view.frame) for view in views]


def test_a_page_plays_no_table_without_levels_or_with_too_many_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = TableSpec({"k": ts.BIGINT}).create(tmp_path / "plain")
    with pytest.raises(ts.InvalidRequest, match="needs a table with a primary key"):
        bucket_recipe(plain, "")
    empty = TableSpec({"k": ts.BIGINT}, primary_key=("k",)).create(tmp_path / "empty")
    with pytest.raises(ts.InvalidRequest, match="bucket 0 has 0"):
        bucket_recipe(empty, "")
    monkeypatch.setattr(own_table, "MOST_FILES", 1)
    with pytest.raises(ts.InvalidRequest, match="takes 1 to 1 files of a bucket"):
        bucket_recipe(shop(tmp_path / "shop", random.Random(1)), "")


def test_flushes_are_like_those_of_the_table(tmp_path: Path) -> None:
    spec = TableSpec({"k": ts.BIGINT}, primary_key=("k",), options={"bucket": 1, "write-only": True})
    growing, spread = spec.create(tmp_path / "growing"), spec.create(tmp_path / "spread")
    for i in range(6):
        growing.write({"k": range(100 * i, 100 * i + 100)})
        spread.write({"k": [(k * 7 + i) % 1_000 for k in range(0, 1_000, 4)]})
    new = bucket_recipe(growing.refresh(), "")["workload"]
    assert (new["kind"], new["rows"], new["updates"]) == ("sequential", 100, 0.0)
    drawn = bucket_recipe(spread.refresh(), "")["workload"]
    assert (drawn["kind"], drawn["rows"]) == ("uniform", 250)
    left = len({(k * 7 + i) % 1_000 for i in range(6) for k in range(0, 1_000, 4)})
    tree = ts.simulator(drawn, start=spread.refresh().inspect.levels(), write_only=True)
    tree.compact(full=True)
    assert sum(f.row_count for f in tree.levels().files) == pytest.approx(left, rel=0.25)


@pytest.mark.parametrize("engine", ["deduplicate", "partial-update", "aggregation", "first-row"])
@pytest.mark.sample(1)
def test_each_merge_engine_merges_in_a_page_as_in_a_kernel(unpacked: Path, engine: str) -> None:
    options = {"aggregation": {"fields.v.aggregate-function": "sum"}}
    recipe = {"kind": "merge", "runs": ORDERS, "engine": engine, "primary_key": ["k"], "options": options}
    (view,) = views_of(recipe)
    ((begun,),) = driven(unpacked, ("begin", recipe))
    assert "error" not in view.frame
    assert begun["state"]["frame"] == as_sent(view.frame)


def test_draws_are_those_of_numpy(seeds: tuple[int, ...]) -> None:
    for seed in seeds:
        command = [sys.executable, "-S", "-P", "-c", DRAW, str(folder.COLUMNS), str(seed)]
        document = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        draws = np.random.default_rng(seed)
        even, whole, few = draws.random((3, 4)), draws.integers(0, 1000, 50), draws.integers(0, 7, (2, 3))
        exponential, normal, after = (
            draws.exponential(5.0, 2000),
            draws.normal(3.0, 2.0, 2000),
            draws.random(2),
        )
        assert document[:4] == [even.tolist(), whole.tolist(), few.tolist(), exponential.tolist()]
        assert document[4] == pytest.approx(normal.tolist(), rel=1e-12, abs=1e-14)
        assert document[5] == after.tolist()


def test_a_page_of_a_kind_that_is_none_is_refused_by_name() -> None:
    with pytest.raises(ts.InvalidRequest, match="'chess' is none of game, tree, trade_off, merge, lesson"):
        views_of({"kind": "chess"})


@pytest.mark.large
def test_the_archive_is_the_same_for_the_same_files() -> None:
    assert folder.engine_zip() == folder.engine_zip()


def test_there_is_an_example_of_each_kind_of_page() -> None:
    assert [each["kind"] for each in EXAMPLES] == ["game", "tree", "trade_off", "lesson", "merge"]
    assert all(views_of(each) for each in EXAMPLES)


@pytest.mark.large
def test_what_pages_import_is_compiled_and_the_rest_stays_source(monkeypatch: pytest.MonkeyPatch) -> None:
    counterparts.need("Pyodide")
    given = folder.engine_zip()
    files = pyodide.packed(given, json.dumps(EXAMPLES))
    names = {name: names_in(base64.b64decode(files[name])) for name in (pyodide.ENGINE, pyodide.STDLIB)}
    compiled = {name for name in names[pyodide.ENGINE] if name.endswith(".pyc")}
    assert {"columns/numpy/array.pyc", "widgets/game/rules.pyc", "traitlets/__init__.pyc"} <= compiled
    assert {"widgets/tiering/widget.py", "widgets/playground/folder.py"} <= names[pyodide.ENGINE]
    assert {name.removesuffix("c") for name in names[pyodide.ENGINE]} == names_in(given)
    assert {"json/__init__.pyc", "pdb.py"} <= names[pyodide.STDLIB]
    monkeypatch.setattr(pyodide.shutil, "which", lambda _name: None)
    assert base64.b64decode(pyodide.packed(given, "[]")[pyodide.ENGINE]) == given


def names_in(archive: bytes) -> set[str]:
    return set(zipfile.ZipFile(io.BytesIO(archive)).namelist())


def test_a_package_with_another_hash_is_removed_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    pyodide.cached().parent.mkdir(parents=True)
    pyodide.cached().write_bytes(b"something else")
    with pytest.raises(pyodide.NoPyodide, match="not the one known; it was removed"):
        pyodide.packed(b"", "[]")
    assert not pyodide.cached().exists()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(pyodide.NoPyodide, match="npm is missing"):
        pyodide.packed(b"", "[]")
