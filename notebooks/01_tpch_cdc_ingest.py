# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#       format_version: '1.3'
#       jupytext_version: 1.19.6
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 1 · TPC-H change capture into an LSM lake table
#
# This is the real thing. One Spark query loads a full snapshot of `lineitem` and then follows its changes:
# the TPC-H refresh functions RF1 (inserts) and RF2 (deletes), as a database would write them to its log. A
# second query keeps TPC-H Q1 up to date from the table's changelog, retractions included. You watch commits
# and LSM levels grow, compact them yourself, and at the end every row is compared with an independent
# computation.
#
# The data are derived from TPC-H and not comparable to published TPC-H results.

# %% tags=["parameters"]
scale_factor = "0.01"
pairs = 6
warehouse = None  # None: a temporary directory
solve = False

# %%
from notebooks import course

course.begin(solve=solve)
course.check()

# %%
import tablestore as ts
import widgets
from notebooks.demo import pipeline, verification
from notebooks.demo.journal import Places
from notebooks.demo.watch import ingest_job

lake_path = course.warehouse(warehouse)
spark = ts.spark.session("notebook 01")
spark.version

# %% [markdown]
# ## The source
#
# A directory that stands in for a database's snapshot and log: chunks as Parquet, changes as Debezium
# events, with positions from which a reader can stop and resume anywhere.

# %%
plan = pipeline.Plan(scale_factor, pairs=pairs, chunks_per_batch=2)
run = pipeline.prepare(Places(lake_path), plan, progress=False)
table = run.lineitem
print(f"{run.snapshot_rows:,} rows in {run.chunks} chunks, then {pairs} pairs of changes. {run.source.note}")
table

# %% [markdown]
# ## Load and follow
#
# Spark plans small batches. Each batch is one commit: two chunks while it loads, one pair of changes
# afterwards. The source position is in the snapshot that the commit makes, so a batch that was committed is
# never written twice, whatever is killed.

# %% jupyter={"source_hidden": true}
commits_expected = course.task(
    "how many commits",
    f"{run.chunks} chunks, two in a batch, then {pairs} pairs of changes, one in a batch. Each batch is one "
    "commit. How many **snapshots** will the table have?",
    answer=-(-run.chunks // plan.chunks_per_batch) + pairs,
    hint="Count the batches of the load, then those of the changes. A batch is whole or not at all.",
    why="One snapshot a batch. Small batches mean fresh data, and many small files.",
)
commits_expected

# %%
answer = None  # how many snapshots?
commits_expected.check(answer)

# %% [markdown]
# The work runs in a thread, so *Pause* and *Stop* act while it goes on. Each box is a chunk: empty while it
# waits, striped once a task has read it, solid once it is in a snapshot. Below is the source's log. A chunk
# holds the rows as of its brackets ⊏⊐; what changed later is in the log, and the batches take it from there,
# up to the log's head. The timeline below reads the table again at every commit.

# %%
progress = widgets.IngestProgress("tpch.dwd_lineitem")
timeline = widgets.SnapshotTimeline(table)
progress.link(timeline)
progress.run(ingest_job(spark, run))

# %%
timeline

# %%
progress.wait()
commits = table.inspect.commits()
assert run.loaded()
assert run.ingested()
assert commits.num_rows == commits_expected.answer.own, "one snapshot a batch"
assert progress.progress.counts["committed"] == run.chunks
assert progress.progress.lag_bytes == 0, "everything up to the log's head is in the table"
commits.select(["snapshot_id", "commit_kind", "rows_added", "files_added", "changelog_rows"]).to_pandas()

# %% [markdown]
# How the ingest ended:

# %%
progress

# %% [markdown]
# ## What is in the table
#
# The table is partitioned by month, and each partition has two buckets. Every bucket is an LSM tree of its
# own. Nobody has compacted anything yet, so each file is a sorted run at level 0, and a reader of a key must
# ask every run that may hold it. This is the bucket with the most.

# %%
counted = table.inspect.levels().group_by(["partition", "bucket"]).aggregate([("run", "count")])
partition, bucket, runs = (column[0].as_py() for column in counted.sort_by([("run_count", "descending")]))
levels = table.inspect.levels(partition=partition, bucket=bucket)
assert set(levels["level"].to_pylist()) == {0}, "nothing is compacted yet"
assert levels.num_rows == runs
print(f"{runs} sorted runs in bucket {bucket} of {partition}; {counted.num_rows} buckets in all")

# %% [markdown]
# **The workbench** puts everything about a table side by side: its commits, the levels of a bucket, the next
# compaction with the rule behind it, and what it all costs. All of it is linked. Click a commit to travel:
# the levels show that snapshot. The row at the bottom opens more views.

# %%
desk = widgets.Workbench(table, partition, bucket)
desk

# %% [markdown]
# ## Compact one bucket
#
# The panel on the right says which rule fires, with its sum. A dry run says the same in words: what would
# happen and why, nothing written.

# %%
dry = table.compact(dry_run=True, partition=partition, bucket=bucket)
print(dry.text)

# %% jupyter={"source_hidden": true}
left = course.task(
    "one step",
    f"The panel's *Step* carries that plan out. The bucket has {runs} sorted runs now. How many are left?",
    answer=runs - len(dry.picks[0].forecast.read) + 1,
    hint="The dry run names its inputs: all of them become one run. What of those that are no inputs?",
    why="Compaction merges its inputs to one run. Runs it does not take stay as they are.",
)
left

# %%
answer = None  # how many runs?
left.check(answer)

# %% [markdown]
# Press *Step* in the workbench, or run this cell, which does the same. Then look at the levels there.

# %%
where = {"partition": partition, "bucket": bucket}
month = table.scan(where=ts.where(partition.replace("/", " AND ")))
before = month.to_arrow().sort_by([(key, "ascending") for key in table.primary_key])
if table.refresh().inspect.levels(**where).num_rows == runs:  # not stepped by hand
    desk.controls.step().wait()
table = table.refresh()
month = table.scan(where=ts.where(partition.replace("/", " AND ")))
after = month.to_arrow().sort_by([(key, "ascending") for key in table.primary_key])
assert after.equals(before), "compaction changes no row"
assert table.inspect.levels(**where).num_rows == left.answer.own
desk.refresh()
print(desk.controls.text())

# %% [markdown]
# ## Compact everything, as Spark tasks
#
# One task a bucket, one COMPACT snapshot.

# %%
compacted = pipeline.compact_fully(spark, run, lambda *_: None)
levels = table.inspect.levels()
assert set(levels["level"].to_pylist()) == {table.inspect.num_levels() - 1}
assert levels.num_rows == counted.num_rows, "one run a bucket"
written = compacted.bytes_written / 1e6
print(f"snapshot {compacted.snapshot}: {compacted.buckets} buckets, {written:.1f} MB written")
desk.refresh()
desk

# %% [markdown]
# ## Why a query reads what it reads
#
# Most files are never opened. Each rule skips some: the partition, the bucket, the key range in a file's
# metadata, the statistics of its columns. Change the condition and press Enter.

# %%
question = "l_year = 1995 AND l_month = 6 AND l_orderkey < 20000"
pruning = widgets.PruningExplainer(table, where=question)
pruning

# %%
explained = table.scan(where=ts.where(question)).explain().to_arrow()
kept = sum(explained["kept"].to_pylist())
assert kept <= 2, "one month, two buckets, one file each"
print(f"{kept} of {explained.num_rows} files are read")

# %% [markdown]
# ## Travel in time, follow the changes
#
# The load wrote no changelog: nobody followed the table yet. From then on every pair of changes is written
# row by row: `+I` for what RF1 inserted, `−D` for what RF2 deleted. The second query lives on it.

# %%
loaded = -(-run.chunks // plan.chunks_per_batch)  # the snapshot at the end of the load
widgets.ChangelogView(table, since=loaded, until=loaded + pairs)

# %%
then, now = table.at(snapshot=loaded).scan().count(), table.scan().count()
kinds = table.changes(since=loaded).group_by("rowkind").aggregate([([], "count_all")]).to_pylist()
kinds = {row["rowkind"]: row["count_all"] for row in kinds}
assert then == run.snapshot_rows
assert now == then + kinds["+I"] - kinds["-D"], "the changelog holds the whole difference"
print(f"{then:,} rows at snapshot {loaded}, {now:,} now: {kinds}")

# %% [markdown]
# ## The summary, kept by the stream

# %%
run.summary.scan().to_pandas().sort_values(["l_returnflag", "l_linestatus"])

# %% [markdown]
# ## Is it right?
#
# Counts and a checksum of every column against the generated rows, all groups of Q1 to the cent, and the
# table's invariants.

# %%
result = verification.verify(run, lambda *_: None)
assert result.verified, result.problems
print(f"{result.rows:,} rows, {result.columns} columns, {result.groups} groups of Q1: equal, invariants hold")

# %%
spark.stop()
course.progress()

# %% [markdown]
# ## What to remember
#
# - A full load and its changes are one stream of batches; **each batch is one commit**, once and only once.
# - Every commit adds a run to each bucket it touches: fresh data and few files are at odds.
# - **Compaction** is a job of its own, in one bucket by hand or in all of them by Spark; it changes no row.
# - The changelog gives later readers exactly what changed, so a summary never has to be computed again.
#
# ## Two questions to try
#
# 1. Load with `chunks_per_batch=1`: how many sorted runs does a bucket have then, and which rule does the
#    panel name?
# 2. Stop the ingest in the middle and press *Retry*. Which identifiers do the commits have
#    (`table.inspect.snapshots()`), and why is no row doubled?
#
# Next: **02 · Rows, files, runs**, where the course begins with four rows and one file.
