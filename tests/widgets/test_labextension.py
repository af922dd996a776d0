"""The JupyterLab extension: what is committed is what the sources give, and JupyterLab finds it."""

import hashlib
from pathlib import Path

from jupyterlab_server.config import get_federated_extensions

from notebooks.cli.lab import jupyter_path
from widgets.labextension import build


def test_what_is_committed_is_what_the_sources_give() -> None:
    there = {
        path.relative_to(build.BUILT).as_posix(): path.read_text("utf-8")
        for path in build.JUPYTER.rglob("*")
        if path.is_file()
    }
    assert there == build.files(), "run: python -m widgets.labextension.build"


def test_a_changed_script_has_another_name() -> None:
    (entry,) = [name for name in build.files() if name.endswith(".js")]
    assert hashlib.sha256(build.script().encode()).hexdigest()[:16] in entry


def test_every_source_is_in_the_script() -> None:
    assert set(build.SOURCES) == {path.name for path in build.HERE.glob("*.js")}


def test_the_script_refers_to_no_other_host() -> None:
    assert build.script().count("http") == build.script().count("http://www.w3.org/2000/svg") == 1


def test_jupyterlab_sees_it_in_a_checkout() -> None:
    (first, after) = jupyter_path("/else").split(":")
    actual = get_federated_extensions([str(Path(first) / "labextensions")])
    assert after == "/else"
    assert actual[build.NAME]["jupyterlab"]["_build"]["load"].startswith("static/remoteEntry.")
