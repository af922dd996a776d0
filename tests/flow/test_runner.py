"""The one place that chooses what runs a stream."""

from __future__ import annotations

import pytest

import tablestore as ts
from tablestore import doors
from tablestore.cli.running import running
from tablestore.core.errors import MissingPackage
from tablestore.flow.runner import LocalRunner, SparkRunner, runner_of


def test_a_runner_is_chosen_by_name():
    assert runner_of("local", processes=3) == LocalRunner(3)
    session = object()
    assert runner_of("spark", spark=session) == SparkRunner(session)
    with pytest.raises(ts.NotFound, match="did you mean spark"):
        runner_of("sparc")


@pytest.mark.parametrize(
    "error",
    [
        MissingPackage("Spark session", "pyspark is missing"),
        ts.NotFound("no Java: none in PATH"),
        ts.InvalidRequest("java is Java 8"),
    ],
    ids=["package", "java", "old"],
)
def test_where_spark_is_missing_the_engine_without_it_is_named(
    error: ts.TablestoreError, monkeypatch: pytest.MonkeyPatch
):
    said = str(error)

    def missing(app: str, **how: object) -> None:
        raise error

    monkeypatch.setattr(doors, "spark_session", missing)
    with pytest.raises(type(error)) as raised:
        runner_of("spark")
    assert str(raised.value) == f'{said}; or choose engine="local", which needs neither Spark nor Java'


def test_without_java_a_capture_names_the_engine_that_needs_none(tmp_path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "empty").mkdir()
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    with pytest.raises(ts.NotFound, match=r'no Java: none in PATH; .*engine="local"'):
        runner_of("spark")
    with pytest.raises(ts.NotFound, match=r"no Java: none in PATH; .*choose --engine local"):
        running("cdc", "spark", None).__enter__()
