"""Jobs: INSERTs in streaming mode, run by processes of this machine. At each moment a target is what the
query gives over its sources."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import tablestore as ts
from tablestore.flow import runner
from tablestore.flow.local import TaskWorkers
from tablestore.sql import Session
from tests.sql.streaming.following import (
    CHANGES,
    LARGE,
    SUMS,
    await_same,
    change,
    require_each_batch_once,
    require_one_clear_error,
    rows,
    session_over,
    with_orders,
)


@pytest.fixture
def tasks_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks of a job are done in this process: another one takes a second to start. One test here has its
    usual processes, `spark/test_job_kill.py` those of jobs of keys, groups and rows."""
    monkeypatch.setattr(runner, "TaskWorkers", lambda _most: TaskWorkers(1))


@pytest.fixture
def lake(tmp_path: Path) -> ts.Lake:
    return ts.connect(tmp_path / "lake")


@pytest.fixture
def session(lake: ts.Lake) -> Iterator[Session]:
    created = with_orders(lake)
    yield created
    created.jobs.stop_all()


def test_a_job_keeps_a_table_in_step_is_stopped_and_goes_on_by_name(session: Session, lake: ts.Lake):
    session.sql("SET 'pipeline.name' = 'large ones'")
    said = session.sql(f"INSERT INTO large {LARGE}").message
    assert said.startswith("job 'large ones' is running, into shop.large")
    await_same(session, "large", LARGE)
    with pytest.raises(ts.InvalidRequest, match="'large ones' is running"):
        session.sql(f"INSERT INTO large {LARGE}")
    session.sql("STOP JOB 'large ones' WITH SAVEPOINT")
    (shown,) = session.sql("SHOW JOBS").to_arrow().to_pylist()
    assert (shown["job name"], shown["status"], shown["target"]) == ("large ones", "STOPPED", "shop.large")
    assert (shown["batches"], shown["rows"], shown["position"], shown["error"]) == (1, 2, "snapshot 1", "")
    change(session, *CHANGES)
    again = session_over(lake)
    again.sql("SET 'pipeline.name' = 'large ones'")
    with pytest.raises(ts.InvalidRequest, match="a job 'large ones' with another query"):
        again.sql("INSERT INTO large SELECT id, customer FROM orders")
    again.sql(f"INSERT INTO large {LARGE}")
    await_same(again, "large", LARGE)
    again.jobs.stop_all()
    assert require_each_batch_once(lake, "shop.large", "large ones") >= 2
    assert lake.table("shop.large").check() == []
    again.sql("DROP JOB 'large ones'")
    assert again.sql("SHOW JOBS").to_arrow().num_rows == 0


@pytest.mark.usefixtures("tasks_here")
def test_a_lost_checkpoint_goes_on_from_the_position_in_the_table(session: Session, lake: ts.Lake):
    session.sql("CREATE TABLE log (id INT, who STRING)")
    session.sql("CREATE TABLE events (id INT, who STRING)")
    change(session, "INSERT INTO events VALUES (1, 'a'), (2, 'b')")
    session.sql("SET 'pipeline.name' = 'l'")
    for added in ("(3, 'c')", "(4, 'd')"):
        session.sql("INSERT INTO log SELECT * FROM events")
        await_same(session, "log", "SELECT * FROM events")
        session.sql("STOP JOB 'l'")
        session.sql("DROP JOB 'l'")
        change(session, f"INSERT INTO events VALUES {added}")
    session.sql("INSERT INTO log SELECT * FROM events")
    await_same(session, "log", "SELECT * FROM events")
    session.sql("STOP JOB 'l'")
    session.sql("DROP JOB 'l'")
    with pytest.raises(ts.InvalidRequest, match="has commits of a job 'l' with another query"):
        session.sql("INSERT INTO log SELECT id, upper(who) FROM events")
    assert session.sql("SHOW JOBS").to_arrow().num_rows == 0


def test_what_a_table_cannot_take_is_refused_when_the_job_is_planned(session: Session):
    session.sql("CREATE TABLE log (id INT, who STRING)")
    session.sql("CREATE TABLE by_who (who STRING, id INT, PRIMARY KEY (who) NOT ENFORCED)")
    for statement, problem in (
        (f"INSERT INTO log {LARGE}", "only takes new rows"),
        ("INSERT INTO by_who SELECT customer, id FROM orders", "select id as they are"),
        (f"INSERT OVERWRITE large {LARGE}", "INSERT OVERWRITE in streaming mode"),
        ("INSERT INTO large SELECT id, customer FROM orders ORDER BY id", "ORDER BY in a stream"),
    ):
        with pytest.raises(ts.Unsupported, match=problem) as e:
            session.sql(statement)
        assert e.value.line == 1
    assert session.sql("SHOW JOBS").to_arrow().num_rows == 0


def test_a_value_that_does_not_fit_fails_the_job_with_one_clear_error(session: Session, lake: ts.Lake):
    require_one_clear_error(session, lake)


@pytest.mark.usefixtures("tasks_here")
def test_a_statement_set_is_one_job(session: Session, lake: ts.Lake):
    session.sql("CREATE TABLE copied (id INT, who STRING, amount INT, PRIMARY KEY (id) NOT ENFORCED)")
    sets = (
        f"EXECUTE STATEMENT SET BEGIN INSERT INTO large {LARGE}; "
        "INSERT INTO copied SELECT id, CASE WHEN amount > 0 THEN customer END, amount FROM orders; END"
    )
    session.sql("SET 'pipeline.name' = 'both'")
    session.sql(sets)
    change(session, *CHANGES)
    await_same(session, "large", LARGE)
    await_same(session, "copied", "SELECT id, customer AS who, amount FROM orders")
    shown = session.sql("SHOW JOBS").to_arrow().to_pylist()
    assert [(r["job name"], r["status"], r["target"]) for r in shown] == [
        ("both", "RUNNING", "shop.large"),
        ("both", "RUNNING", "shop.copied"),
    ]
    session.sql("STOP JOB 'both'")
    assert {r["status"] for r in session.sql("SHOW JOBS").to_arrow().to_pylist()} == {"STOPPED"}
    assert lake.table("shop.copied").check() == []


@pytest.mark.large
@pytest.mark.usefixtures("tasks_here")
def test_groups_follow_retractions_into_tables_with_and_without_a_key(session: Session, lake: ts.Lake):
    columns = "customer STRING, n BIGINT, total BIGINT, lo INT, d BIGINT"
    session.sql(f"CREATE TABLE keyed ({columns}, PRIMARY KEY (customer) NOT ENFORCED) WITH ('bucket' = '1')")
    session.sql(f"CREATE TABLE counted ({columns}) WITH ('bucket' = '2', 'write-mode' = 'change-log')")
    session.sql(
        f"EXECUTE STATEMENT SET BEGIN INSERT INTO keyed {SUMS}; "
        f"INSERT INTO counted {SUMS} HAVING count(*) > 0; END"
    )
    for statements in ((), CHANGES, ("INSERT INTO orders VALUES (8, 'bob', 3), (9, 'dan', 7)",)):
        change(session, *statements)
        await_same(session, "keyed", SUMS)
        await_same(session, "counted", SUMS)
    assert lake.table("shop.keyed").check() == lake.table("shop.counted").check() == []


@pytest.mark.usefixtures("tasks_here")
def test_who_waits_for_a_job_gets_all_that_its_sources_hold(session: Session, lake: ts.Lake):
    session.sql("SET 'pipeline.name' = 'copy'")
    session.sql("INSERT INTO large SELECT id, customer FROM orders")
    for number in range(3):
        change(session, f"INSERT INTO orders VALUES ({10 + number}, 'dan', 1)")
        session.jobs.catch_up("copy")
        assert lake.table("shop.large").scan().count() == 4 + number
    with pytest.raises(ts.NotFound, match="did you mean"):
        session.jobs.catch_up("cody")
    session.sql("STOP JOB 'copy'")
    session.jobs.catch_up("copy")
    change(session, "INSERT INTO orders VALUES (20, 'eve', 1)")
    with pytest.raises(ts.InvalidRequest, match="job 'copy' has ended, and its sources have more"):
        session.jobs.catch_up("copy")


@pytest.mark.usefixtures("tasks_here")
def test_jobs_into_print_blackhole_and_files(session: Session, tmp_path: Path, capsys):
    session.sql(
        "CREATE TEMPORARY TABLE made (n INT) WITH ('connector' = 'datagen', 'fields.n.kind' = 'sequence', "
        "'fields.n.start' = '1', 'fields.n.end' = '4')"
    )
    session.sql("CREATE TEMPORARY TABLE shown (n INT) WITH ('connector' = 'print', 'print-identifier' = 'p')")
    session.sql("CREATE TEMPORARY TABLE counts (n BIGINT) WITH ('connector' = 'print')")
    session.sql("CREATE TEMPORARY TABLE hole (n INT) WITH ('connector' = 'blackhole')")
    folder = tmp_path / "files"
    session.sql(
        f"CREATE TEMPORARY TABLE files (n INT) WITH ('connector' = 'filesystem', 'path' = '{folder}', "
        "'format' = 'json')"
    )
    session.sql("SET 'table.dml-sync' = 'true'")
    done = session.sql(
        "EXECUTE STATEMENT SET BEGIN INSERT INTO shown SELECT n FROM made WHERE n > 2; "
        "INSERT INTO counts SELECT count(*) FROM made; INSERT INTO hole SELECT n FROM made; "
        "INSERT INTO files SELECT n FROM made WHERE n < 3; END"
    )
    assert done.rows_affected == 2 + 1 + 4 + 2
    assert sorted(capsys.readouterr().out.split("\n")) == ["", "+I[4]", "p> +I[3]", "p> +I[4]"]
    assert rows(session, "SELECT * FROM files") == [{"n": 1}, {"n": 2}]
    assert {r["status"] for r in session.sql("SHOW JOBS").to_arrow().to_pylist()} == {"FINISHED"}
    with pytest.raises(ts.Unsupported, match="only takes new rows"):
        session.sql("INSERT INTO files SELECT id FROM orders")


@pytest.mark.usefixtures("tasks_here")
def test_a_batch_of_files_that_comes_again_adds_nothing(session: Session, tmp_path: Path):
    folder = tmp_path / "files"
    folder.mkdir()
    session.sql(
        f"CREATE TEMPORARY TABLE files (n INT) WITH ('connector' = 'filesystem', 'path' = '{folder}', "
        "'format' = 'csv')"
    )
    session.sql("CREATE TABLE numbers (n INT) WITH ('bucket' = '-1')")
    session.sql("SET 'pipeline.name' = 'numbers as files'")
    change(session, "INSERT INTO numbers VALUES (1)")
    session.sql("INSERT INTO files SELECT n FROM numbers")
    await_same(session, "files", "SELECT * FROM numbers")
    session.sql("STOP JOB 'numbers as files'")
    (note,) = (tmp_path / "lake").glob(".tablestore/jobs/*/0/checkpoint/commits/0")
    note.unlink()  # killed behind the files, before it was noted
    session.sql("INSERT INTO files SELECT n FROM numbers")
    change(session, "INSERT INTO numbers VALUES (2)")
    await_same(session, "files", "SELECT * FROM numbers")
    session.sql("STOP JOB 'numbers as files'")
    assert len(list(folder.iterdir())) == 2
    shutil.rmtree(note.parents[1])  # the checkpoint, so that all is one batch
    session.sql("INSERT INTO files SELECT n FROM numbers")
    with pytest.raises(ts.InvalidRequest, match="a job whose checkpoint is gone"):
        session.jobs.wait()


@pytest.mark.usefixtures("tasks_here")
def test_a_table_that_adds_up_takes_what_is_taken_back(session: Session):
    for name, function in (("sums", "sum"), ("extremes", "max")):
        session.sql(
            f"CREATE TABLE {name} (customer STRING, total INT, PRIMARY KEY (customer) NOT ENFORCED) WITH "
            "('bucket' = '1', 'merge-engine' = 'aggregation', "
            f"'fields.total.aggregate-function' = '{function}')"
        )
    with pytest.raises(ts.Unsupported, match="'max' of column 'total' takes no -U or -D"):
        session.sql("INSERT INTO extremes SELECT customer, amount FROM orders")
    session.sql("SET 'pipeline.name' = 'sums'")
    session.sql("INSERT INTO sums SELECT customer, amount FROM orders")
    change(
        session,
        "INSERT INTO orders VALUES (4, 'ann', 5), (5, 'bob', 7)",
        "UPDATE orders SET customer = 'bob', amount = 11 WHERE id = 1",
        "DELETE FROM orders WHERE id = 2",
    )
    session.jobs.catch_up("sums")
    assert rows(session, "SELECT customer, total FROM sums") == rows(
        session, "SELECT customer, CAST(sum(amount) AS INT) AS total FROM orders GROUP BY customer"
    )


def test_without_java_a_job_names_the_target_that_needs_none(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "empty").mkdir()
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    session.sql("RESET 'execution.target'")
    with pytest.raises(ts.NotFound, match=r"no Java: none in PATH; .*or SET 'execution.target' = 'local'"):
        session.sql(f"INSERT INTO large {LARGE}")
    assert session.sql("SHOW JOBS").to_arrow().num_rows == 0
    with pytest.raises(ts.InvalidRequest, match=r"execution\.target is spark or local, not 'remote'"):
        session.sql("SET 'execution.target' = 'remote'")
