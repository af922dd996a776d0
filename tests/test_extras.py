"""Packages that not everybody has: loaded when needed; if missing, done without or named by their extra."""

from __future__ import annotations

import ast
import importlib
import json
import subprocess
import sys
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from packaging.requirements import Requirement

import tablestore as ts
from tablestore.core import extras
from tablestore.format.manifests import manifest_columns
from tablestore.log.kafka.cluster import BrokerCluster
from tablestore.table import lake

ROOT = Path(__file__).resolve().parents[1]
FACE = ROOT / "tablestore" / "__init__.py"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
HEAVY = {*extras.EXTRA_OF, "py4j", "IPython", "anywidget", "ipywidgets", "plotly", "rich", "psutil", "pytest"}
USES = """
import json, sys
import tablestore as ts
before = sorted(m for m in sys.modules if "." not in m)
lake = ts.connect(sys.argv[1])
orders = lake.table("shop.orders")
print(json.dumps([before, sorted(m for m in sys.modules if "." not in m)]))
"""


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Importing any package of an extra fails, as where it is not installed."""
    pa.array([])  # pyarrow looks once for pandas, and would take None for a module
    for name in [m for m in sys.modules if extras.package_of(m) in extras.EXTRA_OF]:
        monkeypatch.delitem(sys.modules, name)
    for name in extras.EXTRA_OF:
        monkeypatch.setitem(sys.modules, name, None)
    return monkeypatch


def test_the_extras_are_those_that_the_project_declares() -> None:
    declared = PROJECT["optional-dependencies"]
    for package, extra in extras.EXTRA_OF.items():
        names = {Requirement(line).name.replace("-", "_") for line in declared[extra]}
        assert names & {package.rpartition(".")[2], package.replace(".", "_")}, package
    assert PROJECT["name"] == extras.DISTRIBUTION


def test_importing_and_opening_load_nothing_that_few_need(tmp_path: Path) -> None:
    ts.connect(tmp_path).create_table("shop.orders", schema={"id": ts.INT}, primary_key=["id"])
    command = [sys.executable, "-c", USES, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    imported, opened = (set(names) for names in json.loads(done.stdout))
    assert not {"pyarrow", "numpy", *HEAVY} & imported
    assert not HEAVY & opened - {"pandas"}  # which Arrow loads where it makes an array of Python values


def test_public_names_are_there_when_they_are_used() -> None:
    assert {"connect", "Lake", "INT", "what_if", "advise_buckets"} < set(ts.__all__) < set(dir(ts))
    for name in ts.__all__:
        assert getattr(ts, name) is not None, name
    assert ts.connect is lake.connect
    assert ts.open is lake.open_table
    with pytest.raises(AttributeError, match="module 'tablestore' has no attribute 'tabel'"):
        ts.tabel  # noqa: B018
    assert not hasattr(ts, "import_nothing")


def test_checkers_of_types_see_each_public_name_where_it_is() -> None:
    (block, *_) = [n for n in ast.parse(FACE.read_text(encoding="utf-8")).body if isinstance(n, ast.If)]
    typed: dict[str, object] = {}
    others: list[str] = []
    for node in block.body:
        if isinstance(node, ast.ImportFrom) and node.module != "tablestore":
            module = importlib.import_module(str(node.module))
            typed |= {name.asname or name.name: getattr(module, name.name) for name in node.names}
            others += [name.asname for name in node.names if name.asname and name.asname != name.name]
        elif isinstance(node, ast.Assign):
            assert ast.literal_eval(node.value) == ["mend", "open", "what_if", "where"]
    assert sorted(typed) == ts.__all__
    assert sorted(others) == ["mend", "open", "what_if", "where"], "a checker takes them as public by __all__"
    for name, value in typed.items():
        assert getattr(ts, name) is value, name


def test_a_missing_package_is_named_with_its_extra(without: pytest.MonkeyPatch) -> None:
    for package, extra in extras.EXTRA_OF.items():
        with pytest.raises(ts.Unsupported) as raised:
            extras.required(package, by="this")
        said = f"not supported: this ({package} is missing: pip install 'tablestore-workbench[{extra}]')"
        assert str(raised.value) == said


def test_a_package_that_lacks_something_itself_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, without: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pyorc.py").write_text("import what_pyorc_needs\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "pyorc")
    with pytest.raises(ModuleNotFoundError, match="what_pyorc_needs"):
        extras.required("pyorc", by="this")


def test_a_package_that_another_thread_imports_just_now_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "slow_one.py").write_text("import time\ntime.sleep(0.5)\nvalue = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    with ThreadPoolExecutor() as pool:
        first = pool.submit(extras.available, "slow_one")
        while "slow_one" not in sys.modules:
            time.sleep(0.01)
        assert extras.available("slow_one").value == first.result().value == 1
    monkeypatch.delitem(sys.modules, "slow_one")


def test_avro_files_and_manifests_read_alike_without_polars(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = pa.table({"id": range(5_000), "name": [f"n{i}" for i in range(5_000)]})
    options = {"bucket": 3, "file.format": "avro"}
    table = ts.connect(tmp_path).create_table("d.t", schema=rows.schema, primary_key=["id"], options=options)
    table.write(rows)
    manifests = sorted((tmp_path / "d.db" / "t" / "manifest").glob("manifest-*-0"))
    files = [(str(path), path.read_bytes()) for path in manifests]
    there = manifest_columns.decode(files), table.scan().to_arrow()
    assert "polars" in sys.modules
    monkeypatch.setitem(sys.modules, "polars", None)
    again = manifest_columns.decode(files), ts.open(tmp_path / "d.db" / "t").scan().to_arrow()
    assert again[0] == there[0]
    assert again[1] == there[1]
    assert again[1].sort_by("id").to_pydict() == rows.to_pydict()


def test_what_needs_a_missing_package_is_refused(without: pytest.MonkeyPatch, tmp_path: Path) -> None:
    lake = ts.connect(tmp_path)
    names = lake.create_table("d.names", schema={"name": ts.STRING}, primary_key=["name"])
    names.write([{"name": "a"}])
    times = {"id": ts.INT, "at": ts.TIMESTAMP(6)}
    sketches = {"id": ts.INT, "s": ts.BYTES}
    theta = {"merge-engine": "aggregation", "fields.s.aggregate-function": "theta_sketch"}
    needs = {
        "pandas": lambda: names.scan().to_pandas(),
        "polars": lambda: names.scan().to_polars(),
        "orc": lambda: lake.create_table("d.o", schema=times, options={"file.format": "orc"}),
        "sketches": lambda: lake.create_table("d.s", schema=sketches, primary_key=["id"], options=theta),
        "s3": lambda: ts.connect("s3://bucket/lake").databases(),
        "postgres": lambda: ts.connect(tmp_path, metastore="jdbc", uri="postgresql://h/d").databases(),
        "kafka": lambda: BrokerCluster((("bootstrap.servers", "127.0.0.1:9"),)).topics(["t"]),
        "hive": lambda: ts.connect(tmp_path, metastore="hive", uri="thrift://127.0.0.1:9").databases(),
    }
    for extra, use in needs.items():
        with pytest.raises(ts.Unsupported) as raised:
            use()
        assert f"pip install 'tablestore-workbench[{extra}]'" in str(raised.value), extra
