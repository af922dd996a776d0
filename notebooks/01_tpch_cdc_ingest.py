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
# One Spark query loads a snapshot of `lineitem` and then follows its changes: the TPC-H refresh functions RF1
# (inserts) and RF2 (deletes). A second query keeps TPC-H Q1 up to date from the table's
# changelog. At the end every row is compared with an independent computation.
#
# The data are derived from TPC-H and not comparable to published TPC-H results.

# %% tags=["parameters"]
scale_factor = "0.01"
pairs = 6
warehouse = None  # None: a temporary directory
solve = False

# %%
from notebooks import course

course.begin("01 TPC-H change capture", solve=solve)
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
# A directory that stands in for a database: chunks as Parquet, changes as Debezium events, with positions.

# %%
plan = pipeline.Plan(scale_factor, pairs=pairs, chunks_per_batch=2)
run = pipeline.prepare(Places(lake_path), plan, progress=False)
table = run.lineitem
print(f"{run.snapshot_rows:,} rows in {run.chunks} chunks, then {pairs} pairs of changes. {run.source.note}")
table

# %% [markdown]
# ## Load and follow
#
# Each batch is one commit: two chunks while it loads, one pair of changes afterwards. The snapshot has the
# source's position, so a batch that was committed is never written twice.

# %% jupyter={"source_hidden": true}
commits_expected = course.task(
    "how many commits",
    f"{run.chunks} chunks, two in a batch, then {pairs} pairs of changes, one in a batch. Each batch is one "
    "commit. How many **snapshots** will the table have?",
    answer=-(-run.chunks // plan.chunks_per_batch) + pairs,
    options=sorted({2, pairs, -(-run.chunks // plan.chunks_per_batch) + pairs, run.chunks + pairs}),
    wrong=lambda count: (
        "that is a commit for each chunk; two chunks go into one."
        if count == run.chunks + pairs
        else "that is a part: batches of the load, or of the changes, are missing."
    ),
    hint="Count the batches of the load, then those of the changes. A batch is whole or not at all.",
    why="One snapshot a batch. Small batches mean fresh data, and many small files.",
)
commits_expected

# %% [markdown]
# Each box is a chunk: empty while it waits, striped once a task has read it, solid once it is in a snapshot.
# Below is the source's log. A chunk holds the rows as of its brackets ⊏⊐; what changed later is in the log.
# *Pause* and *Stop* act while it goes on. It starts at once, and counts its commits: answer first.

# %%
progress = widgets.IngestProgress("tpch.dwd_lineitem")
timeline = widgets.SnapshotTimeline(table)
progress.link(timeline)
_ = progress.run(ingest_job(spark, run))

# %%
commits_expected.then(progress)

# %%
commits_expected.then(timeline)

# %%
progress.wait()
commits = table.inspect.commits()
shown = commits.select(["snapshot_id", "commit_kind", "rows_added", "files_added", "changelog_rows"])

# %% jupyter={"source_hidden": true} tags=["check:loaded_and_followed"]
commits_expected.then(
    shown.to_pandas().to_string(index=False),
)

# %% [markdown]
# ## What is in the table
#
# The table is partitioned by month, two buckets in each. Every bucket is an LSM tree of its own. Nobody has
# compacted anything yet: each file is a sorted run at level 0. This is the bucket with the most.

# %% tags=["check:nothing_is_compacted"]
counted = table.inspect.levels().group_by(["partition", "bucket"]).aggregate([("run", "count")])
partition, bucket, runs = (column[0].as_py() for column in counted.sort_by([("run_count", "descending")]))
levels = table.inspect.levels(partition=partition, bucket=bucket)
print(f"{runs} sorted runs in bucket {bucket} of {partition}; {counted.num_rows} buckets in all")

# %%
desk = widgets.Workbench(table, partition, bucket)
dry = table.compact(dry_run=True, partition=partition, bucket=bucket)

# %% jupyter={"source_hidden": true}
taken = {file.file_name for file in dry.picks[0].decision.unit.files}
left = course.task(
    "one step",
    "The next compaction takes runs from the newest on. **Click those that it takes.**",
    answer=course.runs(levels.filter([name in taken for name in levels["file_name"].to_pylist()])),
    picture=course.RunPicture(levels, num_levels=table.inspect.num_levels()),
    hint="Five runs are allowed, none is large. Which of them can stay?",
    why="Compaction merges its inputs to one run. Runs it does not take stay as they are.",
)
left

# %%
left.then(desk)

# %% jupyter={"source_hidden": true}
left.then(
    dry.text,
    "**The workbench** puts everything about a table side by side. Click a commit to travel. A dry run says "
    "in words what its panel shows:",
)

# %% [markdown]
# ## Compact one bucket
#
# This does the same as *Step* in the workbench.

# %% tags=["check:one_step"]
where = {"partition": partition, "bucket": bucket}
month = table.scan(where=ts.where(partition.replace("/", " AND ")))
before = month.to_arrow().sort_by([(key, "ascending") for key in table.primary_key])
if table.refresh().inspect.levels(**where).num_rows == runs:  # not stepped by hand
    desk.controls.step().wait()
table = table.refresh()
month = table.scan(where=ts.where(partition.replace("/", " AND ")))
after = month.to_arrow().sort_by([(key, "ascending") for key in table.primary_key])
desk.refresh()
print(desk.controls.text())

# %% [markdown]
# ## Compact everything, as Spark tasks
#
# One task a bucket, one COMPACT snapshot.

# %% tags=["check:one_run_in_each_bucket"]
compacted = pipeline.compact_fully(spark, run, lambda *_: None)
levels = table.inspect.levels()
written = compacted.bytes_written / 1e6
print(f"snapshot {compacted.snapshot}: {compacted.buckets} buckets, {written:.1f} MB written")
desk.refresh()
desk

# %% [markdown]
# ## Why a query reads what it reads
#
# Most files are never opened: each rule skips some. Change the condition and press Enter.

# %%
question = "l_year = 1995 AND l_month = 6 AND l_orderkey < 20000"
pruning = widgets.PruningExplainer(table, where=question)
pruning

# %% tags=["check:files_of_one_month"]
explained = table.scan(where=ts.where(question)).explain().to_arrow()
kept = sum(explained["kept"].to_pylist())
print(f"{kept} of {explained.num_rows} files are read")

# %% [markdown]
# ## Travel in time, follow the changes
#
# From the load on every pair of changes is written row by row: `+I` for what RF1 inserted, `−D` for what RF2
# deleted. The second query lives on it.

# %%
loaded = -(-run.chunks // plan.chunks_per_batch)  # the snapshot at the end of the load
widgets.ChangelogView(table, since=loaded, until=loaded + pairs)

# %% tags=["check:the_whole_difference"]
then, now = table.at(snapshot=loaded).scan().count(), table.scan().count()
kinds = table.changes(since=loaded).group_by("rowkind").aggregate([([], "count_all")]).to_pylist()
kinds = {row["rowkind"]: row["count_all"] for row in kinds}
print(f"{then:,} rows at snapshot {loaded}, {now:,} now: {kinds}")

# %% [markdown]
# ## The summary, kept by the stream

# %%
run.summary.scan().to_pandas().sort_values(["l_returnflag", "l_linestatus"])

# %% [markdown]
# ## Is it right?
#
# Counts and checksums of every column, all groups of Q1 to the cent, and the table's invariants.

# %% tags=["check:verified"]
result = verification.verify(run, lambda *_: None)
print(f"{result.rows:,} rows, {result.columns} columns, {result.groups} groups of Q1: equal, invariants hold")

# %%
spark.stop()
course.progress()

# %% [markdown]
# ## What to remember
#
# - A full load and its changes are one stream of batches; **each batch is one commit**, once and only once.
# - Every commit adds a run to each bucket it touches; **compaction** is a job of its own, and changes no row.
# - The changelog gives later readers exactly what changed.
#
# ## Two questions to try
#
# 1. Load with `chunks_per_batch=1`: how many sorted runs does a bucket have then, and which rule does the
#    panel name?
# 2. Stop the ingest in the middle and press *Retry*. Which identifiers do the commits have
#    (`table.inspect.snapshots()`), and why is no row doubled?
#
# Next: **02 · Rows, files, runs**, where the course begins with four rows and one file.
