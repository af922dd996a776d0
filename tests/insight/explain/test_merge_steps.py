"""A merge told step by step is the merge: outputs, winners and the sums in the sentences."""

from __future__ import annotations

import random
import re

import numpy as np
import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.core.errors import CannotMerge, InvalidOption, InvalidRequest, TablestoreError
from tablestore.core.options.table_options import TableOptions
from tablestore.format.parquet.schema import KIND, SEQUENCE
from tablestore.insight.explain.merge_steps import RunRows, merged_steps
from tablestore.lsm.merge import keys
from tablestore.lsm.merge.groups import grouped
from tablestore.lsm.merge.merge_function import merge_function
from tests.lsm.merge.test_merge_engines import kv_rows, random_records, random_table

ENGINES = ["deduplicate", "partial-update", "aggregation", "first-row"]
NEW = [{"k": 1, "rowkind": "-D", "v": "x", "n": 1}, {"k": 2, "rowkind": "+I", "v": "y", "n": 1}]
MIDDLE = [{"k": 1, "v": "b", "n": 5}, {"k": 3, "v": None, "n": 2}]
REFUSING = 1  # among the tables of this seed are some, of each engine but one, that refuse rows
OLD = [{"k": 1, "v": "a", "n": 7}, {"k": 2, "v": "a", "n": 9}, {"k": 3, "v": "q", "n": None}]


def why(merging, step: int = 0) -> str:
    return merging.outputs["why"][step].as_py()


def fates(merging) -> list[str]:
    return merging.outputs["fate"].to_pylist()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.sample(2)
def test_steps_give_the_rows_of_the_merge_function_on_random_records(engine: str, seeds) -> None:
    merged = refused = 0
    for seed in (s * 1000 + n for s in (REFUSING, *seeds) for n in range(15)):
        rng = random.Random(seed)
        schema, rules, kinds = random_table(rng, engine)
        options = TableOptions.parse(schema.options)
        records = random_records(rng, rules, kinds, 40)
        runs = []
        for number in range(4):  # a key once a run
            some = rng.sample(range(12), rng.randrange(1, 11))
            rows = kv_rows(schema, [(k, records[10 * number + i]) for i, k in enumerate(sorted(some))])
            runs.append(RunRows(f"L0 #{9 - number}", 0, rows, 9 - number))
        actual = merged_steps(runs, schema, options, limit=100, drops_deletes=False)
        function = merge_function(schema, options)
        rows = pa.Table.from_batches([r.rows for r in runs[::-1]]).combine_chunks().to_batches()[0]
        codes = keys.of_batch(rows, schema.key_fields)[0]
        for step, key in enumerate(np.unique(codes)):
            mine = rows.filter(pa.array(codes == key))
            groups = grouped(np.zeros(mine.num_rows, np.int64), function.sequence.numbers(mine))
            if actual.outputs["fate"][step].as_py() == "refused":
                with pytest.raises(CannotMerge) as raised:
                    function.merge(mine, groups)
                assert raised.value.reason in why(actual, step)
                refused += 1
                continue
            wanted = function.merge(mine, groups)
            assert actual.outputs["fate"][step].as_py() == ("kept" if wanted.num_rows else "dropped")
            if wanted.num_rows:
                shown = wanted.drop_columns([SEQUENCE, KIND]).to_pylist()
                assert repr(actual.output_rows.slice(step, 1).to_pylist()) == repr(shown), f"seed {seed}"
                merged += 1
        require_winners_hold_the_values(actual)
    assert merged > 30 * len(seeds)
    assert refused or engine == "deduplicate"


def require_winners_hold_the_values(actual) -> None:
    """Where a run is named as the origin of a column, its row has the value of the result."""
    inputs = {(r["step"], r["run"]): at for at, r in enumerate(actual.inputs.to_pylist())}
    origins = [r for r in actual.columns.to_pylist() if r["run"] is not None]
    fate = fates(actual)
    for row in (r for r in origins if fate[r["step"]] == "kept"):
        at = inputs[row["step"], row["run"]]
        got = actual.input_rows[row["column"]][at].as_py()
        assert repr(got) == repr(actual.output_rows[row["column"]][row["step"]].as_py())


def test_deduplicate_says_which_numbers_decided_and_what_becomes_of_a_delete() -> None:
    merging = ts.merging([NEW, MIDDLE, OLD], primary_key="k")
    assert fates(merging) == ["dropped", "kept", "kept"]
    assert why(merging) == (
        "sequence 5 > 3 > 0: the newest row, of L0 #3, is −D. No older run is left, so the key is dropped."
    )
    assert why(merging, 1) == "sequence 6 > 1: the newest row wins, of L0 #3."
    assert merging.inputs["part"].to_pylist()[:3] == ["kept", "superseded", "superseded"]
    kept = ts.merging([NEW, MIDDLE, OLD], primary_key="k", drops_deletes=False)
    assert fates(kept)[0] == "kept"
    assert kept.outputs["row_kind"][0].as_py() == "-D"
    assert "kept for them" in why(kept)
    assert kept.rows.num_rows == merging.rows.num_rows == 2  # a delete that is kept is no row


def test_a_sequence_field_beats_the_order_of_arrival_and_says_so() -> None:
    merging = ts.merging([NEW, MIDDLE, OLD], primary_key="k", options={"sequence.field": "n"})
    assert why(merging) == "n 7 > 5 > 1: L0 #1 wins, although L0 #3 was written later."
    assert merging.rows.to_pylist()[0] == {"k": 1, "v": "a", "n": 7}
    tie = ts.merging(
        [[{"k": 1, "n": 2}], [{"k": 1, "n": 2}]], primary_key="k", options={"sequence.field": "n"}
    )
    assert why(tie) == "n 2 = 2, then sequence 1 > 0: the newest row wins, of L0 #2."


def test_ignored_deletes_refusals_and_the_oldest_row_of_first_row() -> None:
    refused = ts.merging([NEW, MIDDLE, OLD], "first-row", primary_key="k")
    assert fates(refused) == ["refused", "kept", "kept"]
    assert "takes no -U or -D rows" in why(refused)
    assert refused.rows.num_rows == 2
    merging = ts.merging([NEW, MIDDLE, OLD], "first-row", primary_key="k", options={"ignore-delete": "true"})
    assert why(merging) == (
        "ignore-delete leaves out −D of L0 #3. sequence 0 < 3 < 5: first-row keeps the oldest, of L0 #1."
    )
    assert merging.inputs["part"].to_pylist()[:3] == ["ignored", "superseded", "kept"]


def test_sums_in_sentences_are_true_and_take_back_what_goes() -> None:
    options = {"fields.n.aggregate-function": "sum", "fields.v.aggregate-function": "last_value"}
    merging = ts.merging([NEW, MIDDLE, OLD], "aggregation", primary_key="k", options=options)
    assert "n: sum 7 + 5 − 1 = 11." in why(merging)
    assert merging.rows["n"].to_pylist() == [11, 10, 2]
    for text in merging.columns["why"].to_pylist():
        if match := re.fullmatch(r"sum (.+) = (.+)", text):
            terms = match.group(1).replace("−", "-")
            assert sum(int(t) for t in re.findall(r"-?\d+", terms.replace("- ", "-"))) == int(match.group(2))
    parts = {(r["input"], r["column"]): r["part"] for r in merging.cells.to_pylist()}
    assert [parts[at, "n"] for at in range(3)] == ["taken back", "added", "added"]


def test_partial_update_names_the_run_of_each_column_and_the_group_that_decided() -> None:
    late = [{"k": 1, "g": 17, "a": None, "b": "mango", "free": None}]
    mid = [{"k": 1, "g": 21, "a": 7, "b": "kiwi", "free": "x1"}]
    old = [{"k": 1, "g": 12, "a": 5, "b": "fig", "free": "x0"}]
    options = {"fields.g.sequence-group": "a,b"}
    merging = ts.merging([late, mid, old], "partial-update", primary_key="k", options=options)
    assert merging.rows.to_pylist() == [{"k": 1, "g": 21, "a": 7, "b": "kiwi", "free": "x1"}]
    assert why(merging) == ("g, a, b: g 21 > 17 of the newer L0 #3. free: from L0 #2, as L0 #3 has null.")
    assert merging.groups == (("g", ("a", "b")),)
    parts = {(r["input"], r["column"]): r["part"] for r in merging.cells.to_pylist()}
    assert [parts[at, "b"] for at in range(3)] == ["ignored", "kept", "superseded"]
    assert parts[0, "free"] == "null"
    plain = ts.merging([late, mid, old], "partial-update", primary_key="k")
    assert plain.rows["b"].to_pylist() == ["mango"]


def test_what_cannot_be_merged_is_refused_with_its_remedy() -> None:
    with pytest.raises(InvalidRequest, match="twice"):
        ts.merging([[{"k": 1, "v": 1}, {"k": 1, "v": 2}]], primary_key="k")
    with pytest.raises(InvalidRequest, match="at least one run"):
        ts.merging([], primary_key="k")
    with pytest.raises(InvalidOption, match="sum"):
        ts.merging([OLD], "aggregation", primary_key="k", options={"fields.v.aggregate-function": "sum"})
    with pytest.raises(TablestoreError, match="merge-engine"):
        ts.merging([OLD], "newest", primary_key="k")
    with pytest.raises(InvalidRequest, match="different types"):
        ts.merging([[{"k": 1, "v": "a"}], [{"k": 1, "v": [1]}]], primary_key="k")


def test_empty_runs_and_a_limit() -> None:
    assert len(ts.merging([OLD, []], primary_key="k")) == 3
    merging = ts.merging([OLD, MIDDLE], primary_key="k", limit=2)
    assert len(merging) == 2
    assert merging.output_rows["k"].to_pylist() == [1, 2]


EVENTS = [
    {"k": 1, "n": 4, "best": 90},
    {"k": 2, "n": 1, "best": 3},
    {"k": 1, "n": 6, "best": 70},
    {"k": 1, "n": 4, "best": 90, "rowkind": "-D"},
    {"k": 2, "n": 1, "best": 3, "rowkind": "-D"},
    {"k": 1, "n": None, "best": 100},
]
SUMS = {"fields.n.aggregate-function": "sum", "fields.best.aggregate-function": "max"}
IGNORED = {**SUMS, "fields.best.ignore-retract": "true"}
LATE_COUNTS = {"fields.best.sequence-group": "n", "fields.n.aggregate-function": "sum"}


@pytest.mark.parametrize(
    ("engine", "options"),
    [
        ("deduplicate", {}),
        ("first-row", {"ignore-delete": "true"}),
        ("partial-update", {"partial-update.remove-record-on-delete": "true"}),
        ("partial-update", LATE_COUNTS),
        ("aggregation", IGNORED),
        ("aggregation", {**SUMS, "aggregation.remove-record-on-delete": "true"}),
    ],
)
def test_states_after_each_event_are_what_a_reader_of_a_table_sees(tmp_path, engine: str, options) -> None:
    played = ts.merging_events(EVENTS, engine, primary_key="k", options=options)
    table = ts.connect(str(tmp_path)).create_table(
        "d.t",
        schema={"k": ts.BIGINT, "n": ts.BIGINT, "best": ts.BIGINT},
        primary_key=["k"],
        options={"merge-engine": engine, "bucket": "1", "write-only": "true", **options},
    )
    for event, state in zip(EVENTS, played.states.to_pylist(), strict=True):
        table.write([{"rowkind": "+I", **event}], row_kind_column="rowkind")
        if engine == "first-row":  # level 0 is not read
            table.with_options({"write-only": "false"}).compact(full=True)
        rows = table.refresh().scan(where=ts.col("k") == event["k"]).to_arrow().to_pylist()
        assert [{n: state[n] for n in ("k", "n", "best")}] * (state["k"] is not None) == rows, event


def test_an_event_that_is_refused_changes_nothing() -> None:
    played = ts.merging_events(EVENTS, "aggregation", primary_key="k", options=SUMS)
    assert fates(played) == ["kept", "kept", "kept", "refused", "refused", "kept"]
    assert "ignore-retract" in played.states["why"][3].as_py()
    assert played.states["n"].to_pylist() == [4, 1, 10, None, None, 10]
    assert played.states["best"][5].as_py() == 100


def test_the_last_events_alone_have_the_states_of_all() -> None:
    whole = ts.merging_events(EVENTS, "aggregation", primary_key="k", options=IGNORED)
    some = ts.merging_events(EVENTS, "aggregation", primary_key="k", options=IGNORED, last=2)
    assert some.states.drop_columns("step").equals(whole.states.slice(4).drop_columns("step"))
    assert (len(some), some.runs.num_rows, some.by_event) == (2, 6, True)


@pytest.mark.parametrize(
    ("events", "asked", "says"),
    [([], {}, "1 to 1,000 rows"), (EVENTS, {"last": 0}, "last 0"), (EVENTS, {"last": True}, "last True")],
)
def test_events_that_cannot_be_played_are_refused(events, asked, says: str) -> None:
    with pytest.raises(InvalidRequest, match=says):
        ts.merging_events(events, primary_key="k", **asked)
