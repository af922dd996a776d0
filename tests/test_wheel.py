"""The wheel: what it holds, and that it works in an environment with what it declares and nothing else."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

pytestmark = pytest.mark.large

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("tablestore", "widgets")
WRITES_AND_READS = """
import datetime, json, sys
import pyarrow as pa
import tablestore as ts

lake = ts.connect(sys.argv[1])
schema = pa.schema({"id": pa.int64(), "day": pa.date32(), "amount": pa.decimal128(9, 2),
                    "notes": pa.list_(pa.string())})
orders = lake.create_table("shop.orders", schema=schema, primary_key=["id"], options={
    "bucket": 2, "deletion-vectors.enabled": True, "file.format": sys.argv[2]})
day = datetime.date(2026, 1, 1)
for n in range(4):
    orders.write([{"id": i, "day": day, "amount": n, "notes": ["a", None]} for i in range(n, 50)])
orders.delete(ts.col("id") == 7)
before = orders.scan().to_arrow().sort_by("id")
orders.compact(full=True)
expired = orders.expire_snapshots(keep=1)
again = ts.open(sys.argv[1] + "/shop.db/orders")
print(json.dumps({
    "same": again.scan().to_arrow().sort_by("id").equals(before),
    "ids": sorted(again.scan(columns=["id"], where=ts.col("id") < 9).to_arrow()["id"].to_pylist()),
    "amount": str(again.get({"id": 2})["amount"]),
    "snapshots": again.inspect.snapshots().num_rows,
    "violations": [str(v) for v in again.check()],
    "modules": sorted({m.split(".")[0] for m in sys.modules}),
    "installed": ts.__file__,
}))
"""


MISSING = """
import tablestore as ts

try:
    ts.spark
except ts.Unsupported as e:
    print(e)
for module in ("tablestore.spark", "widgets"):
    try:
        __import__(module)
    except ImportError as e:
        print(e)
"""


@dataclass(frozen=True, slots=True)
class Installed:
    """A wheel, and the Python of an environment that holds it and what it declares."""

    wheel: Path
    python: Path

    def run(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """What a program does there, away from the checkout."""
        command = [str(self.python), "-I", "-c", program, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False, cwd=self.wheel.parent)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    folder = tmp_path_factory.mktemp("wheel")
    source, built, venv = folder / "source", folder / "built", folder / "venv"
    for name in tracked(""):
        if name.startswith(PACKAGES) or "/" not in name:
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, source / name)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "--retries", "1"]
    try:
        run([*pip, "wheel", "--quiet", "--no-deps", "--wheel-dir", str(built), str(source)])
        (wheel,) = built.glob("*.whl")
        run([sys.executable, "-m", "venv", "--without-pip", str(venv)])
        into = ["--python", str(venv / "bin" / "python"), "install", "--quiet", "--no-compile"]
        run([*pip, *into, "--constraint", str(ROOT / "requirements.lock"), str(wheel)])
    except subprocess.CalledProcessError as error:
        pytest.skip(f"needs a package index: {(error.stderr.strip() or str(error)).splitlines()[-1]}")
    yield Installed(wheel, venv / "bin" / "python")
    shutil.rmtree(folder, ignore_errors=True)


def run(command: list[str]) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def tracked(folder: str) -> list[str]:
    listed = run(
        [
            "git",
            "-C",
            str(ROOT),
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
            folder or ".",
        ]
    )
    return [name for name in listed.split("\0") if name and (ROOT / name).exists()]


def extension(wheel: Path) -> set[str]:
    """Where a wheel has the files of the JupyterLab extension, besides their place in `widgets`."""
    data = "-".join(wheel.name.split("-")[:2]) + ".data/data/share/jupyter"
    jupyter = "widgets/labextension/jupyter"
    return {name.replace(jupyter, data) for name in tracked(jupyter)}


def test_the_extension_lies_where_jupyterlab_looks(installed: Installed) -> None:
    parent = installed.python.parents[1] / "share" / "jupyter" / "labextensions" / "tablestore-workbench"
    package = json.loads((parent / "package.json").read_text())
    assert (parent / package["jupyterlab"]["_build"]["load"]).is_file()


def test_the_wheel_holds_the_packages_whole_and_nothing_else(installed: Installed) -> None:
    with zipfile.ZipFile(installed.wheel) as wheel:
        packed = {name for name in wheel.namelist() if ".dist-info/" not in name}
    spark = "tablestore/spark/"
    wanted = {
        name.removeprefix(spark) if "/pyspark_tablestore/" in name else name for name in tracked("tablestore")
    }
    assert packed == wanted | set(tracked("widgets")) | extension(installed.wheel)
    assert "tablestore/py.typed" in packed


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
def test_tables_live_in_an_environment_with_nothing_else(
    installed: Installed, tmp_path: Path, file_format: str
) -> None:
    done = installed.run(WRITES_AND_READS, str(tmp_path / "lake"), file_format)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert Path(document.pop("installed")).is_relative_to(installed.python.parents[1])
    assert not {"pandas", "polars", "pyorc", "pyspark"} & set(document.pop("modules"))
    assert document == {
        "same": True,
        "ids": [0, 1, 2, 3, 4, 5, 6, 8],
        "amount": "2.00",
        "snapshots": 1,
        "violations": [],
    }


def test_what_is_not_installed_is_named_with_its_extra(installed: Installed) -> None:
    done = installed.run(MISSING)
    spark = "not supported: tablestore.spark (pyspark is missing: pip install 'tablestore-workbench[spark]')"
    lab = "anywidget is missing: pip install 'tablestore-workbench[lab]'"
    assert done.stdout.splitlines() == [spark, spark, lab], done.stderr
