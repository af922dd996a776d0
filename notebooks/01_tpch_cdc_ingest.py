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
# # TPC-H change capture into an LSM lake table
#
# One Spark query loads a full snapshot of `lineitem` and then follows its changes: the TPC-H refresh
# functions RF1 (inserts) and RF2 (deletes), as a database would write them to its log. A second query keeps
# TPC-H Q1 up to date from the table's changelog, retractions included. You watch commits and LSM levels
# grow, compact them yourself, and at the end every row is compared with an independent computation.
#
# The data are derived from TPC-H and not comparable to published TPC-H results.

# %% tags=["parameters"]
scale_factor = "0.01"
pairs = 6
warehouse = None  # None: a temporary directory

# %%
import tempfile
from pathlib import Path

import tablestore as ts
import widgets
from notebooks.demo import pipeline, verification
from notebooks.demo.journal import Places
from notebooks.demo.watch import ingest_job
from tablestore import col

lake_path = Path(warehouse or tempfile.mkdtemp(prefix="lake-"))
spark = ts.spark.session("notebook 01")
spark.version

# %% [markdown]
# ## The source
# A directory that stands in for a database's snapshot and log: chunks as Parquet, changes as Debezium
# events, with positions from which a reader can stop and resume anywhere.

# %%
plan = pipeline.Plan(scale_factor, pairs=pairs, chunks_per_batch=2)
run = pipeline.prepare(Places(lake_path), plan, progress=False)
print(f"{run.snapshot_rows:,} rows in {run.chunks} chunks, then {pairs} pairs of changes. {run.source.note}")
run.lineitem

# %% [markdown]
# ## Load and follow
# The work runs in a thread, so *Stop* acts at once. Each micro-batch is one commit; the source position is
# in the snapshot it makes, so a batch that was committed is never written twice, whatever is killed.

# %%
progress = widgets.IngestProgress("tpch.dwd_lineitem")
progress.run(ingest_job(spark, run))

# %%
progress.wait()
commits = run.lineitem.inspect.commits()
assert run.loaded()
assert run.ingested()
commits.select(["snapshot_id", "commit_kind", "rows_added", "files_added", "changelog_rows"]).to_pandas()

# %% [markdown]
# ## What is in the table
# Click a commit to travel: the levels show that snapshot. Each small file at level 0 is a sorted run of its
# own; a reader of a key must look into every run that may hold it. The panel on the right says which rule
# would fire next, with its sum.

# %%
partition = "l_year=1995/l_month=6"
cockpit = widgets.cockpit(run.lineitem, partition=partition, bucket=0)
cockpit

# %%
levels = run.lineitem.inspect.levels(partition=partition, bucket=0)
runs = len(levels)
print(f"{runs} sorted runs in bucket 0 of {partition}")
assert set(levels["level"].to_pylist()) == {0}, "nothing is compacted yet: every file is a run at level 0"

# %% [markdown]
# ## Compact one step
# A dry run first: what would happen and why, nothing written.

# %%
dry = run.lineitem.compact(dry_run=True, partition=partition, bucket=0)
print(dry.text)

# %%
table = ts.open(run.lineitem.location)
before = table.scan(where=(col("l_year") == 1995) & (col("l_month") == 6)).to_arrow()
done = table.compact(full=True, partition=partition, bucket=0)
after = table.scan(where=(col("l_year") == 1995) & (col("l_month") == 6)).to_arrow()
assert before.sort_by("l_orderkey").num_rows == after.num_rows, "compaction changes no row"
print(done.text)
cockpit.refresh()

# %% [markdown]
# ## Compact everything, as Spark tasks
# One task a bucket, one COMPACT snapshot.

# %%
compacted = pipeline.compact_fully(spark, run, lambda *_: None)
levels = table.inspect.levels()
assert set(levels["level"].to_pylist()) == {table.store.options.num_levels - 1}
written = compacted.bytes_written / 1e6
print(f"snapshot {compacted.snapshot}: {compacted.buckets} buckets, {written:.1f} MB written")
cockpit.refresh()

# %% [markdown]
# ## Why a query reads what it reads

# %%
question = table.scan(where=(col("l_year") == 1998) & (col("l_month") == 12) & (col("l_linenumber") == 2))
question.explain()

# %% [markdown]
# ## Travel in time, follow the changes
# Each pair of changes is in the changelog: `+I` for what RF1 inserted, `-D` for what RF2 deleted.

# %%
first = commits["snapshot_id"][0].as_py()
then = table.at(snapshot=first).scan().count()
now = table.scan().count()
changes = table.changes(since=first)
kinds = changes.group_by("rowkind").aggregate([([], "count_all")]).to_pandas()
print(f"{then:,} rows at snapshot {first}, {now:,} now")
kinds

# %% [markdown]
# ## The summary, kept by the stream

# %%
run.summary.scan().to_pandas().drop(columns="sum_disc").sort_values(["l_returnflag", "l_linestatus"])

# %% [markdown]
# ## Is it right?
# Counts and a checksum of every column against the generated rows, all groups of Q1 to the cent, and the
# table's invariants.

# %%
result = verification.verify(run, lambda *_: None)
assert result.verified, result.problems
print(f"{result.rows:,} rows, {result.columns} columns, {result.groups} groups of Q1: equal, invariants hold")

# %%
spark.stop()

# %% [markdown]
# ## Two questions to try
# 1. Load with `chunks_per_batch=1`: how many sorted runs does a bucket have then, and which rule does the
# panel name?
# 2. Stop the ingest in the middle and run the cell again. Which identifiers do the commits have
# (`inspect.snapshots()`), and why    is no row doubled?
