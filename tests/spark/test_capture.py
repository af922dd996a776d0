"""A capture by Spark: many tables in one query; each runner goes on where the other has stopped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tablestore as ts
from tablestore.flow.runner import LocalRunner, SparkRunner
from tests.cdc.capture.fakes import Away, FakePiece, FakeSource, FakeStep, content, job_of, piece, rows, steps

pytestmark = pytest.mark.spark


@pytest.mark.large
def test_a_query_is_started_again_when_a_server_was_away(spark: Any, lake: ts.Lake, tmp_path: Path):
    part = rows("a", [("+I", 3, 3)], seconds=5)
    object.__setattr__(part, "position", str(tmp_path / "mark"))
    away = Away((part,), piece(part).tables)
    seen: list[int] = []
    source = FakeSource([*steps(), FakeStep((), [away])])
    created = job_of(lake, source, SparkRunner(spark), on_batch=lambda r: seen.append(r.number))
    assert created.progress() is None
    assert created.start().wait(300)
    assert content(lake, "ods.a") == [(1, 2), (2, 2), (3, 3)]
    assert seen == [0, 1, 2, 3]


@pytest.mark.large
@pytest.mark.parametrize("spark_first", [True, False], ids=["spark", "local"])
def test_each_runner_goes_on_where_the_other_has_stopped(spark: Any, lake: ts.Lake, spark_first: bool):
    runners = [SparkRunner(spark), LocalRunner(2), SparkRunner(spark), LocalRunner(2)]
    source = FakeSource(steps())
    reports: list[ts.BatchReport] = []
    for n, runner in enumerate(runners if spark_first else runners[1:]):
        created = job_of(lake, source, runner, on_batch=reports.append).start()
        assert created.wait(240)
        source.steps.append(FakeStep((), [piece(rows("b", [("+I", 10 + n, n)], seconds=100))]))
    number = len(runners if spark_first else runners[1:])
    assert [r.number for r in reports] == list(range(2 + number))
    assert content(lake, "ods.a") == [(1, 2), (2, 2)]
    assert content(lake, "ods.b") == [(5, 5), *((10 + n, n) for n in range(number - 1))]
    commits = lake.table("ods.b").inspect.commits().to_pylist()
    identifiers = [c["commit_identifier"] for c in commits if c["commit_kind"] == "APPEND"]
    assert identifiers == sorted(set(identifiers))


@pytest.mark.large
@pytest.mark.parametrize("spark_first", [True, False], ids=["spark", "local"])
def test_a_batch_under_way_is_done_again_by_the_other_runner(
    spark: Any, lake: ts.Lake, tmp_path: Path, spark_first: bool
):
    part = rows("a", [("+I", 3, 3)], seconds=5)
    object.__setattr__(part, "position", str(tmp_path / "mark"))
    source = FakeSource([*steps(), FakeStep((), [UnfitPiece((part,), piece(part).tables)])])
    runners = [SparkRunner(spark), LocalRunner(2)]
    first, second = runners if spark_first else runners[::-1]
    with pytest.raises(ts.SchemaMismatch, match="it does not fit"):
        job_of(lake, source, first).start().wait(240)
    (tmp_path / "mark").touch()
    created = job_of(lake, source, second).start()
    assert created.wait(240)
    assert content(lake, "ods.a") == [(1, 2), (2, 2), (3, 3)]
    assert [r.number for r in created.reports()] == [0, 1, 2, 3]


class UnfitPiece(FakePiece):
    """A piece whose rows do not fit until a file is there."""

    def read(self) -> Any:
        if not Path(self.parts[0].position).exists():
            raise ts.SchemaMismatch("it does not fit")
        yield from self.parts
