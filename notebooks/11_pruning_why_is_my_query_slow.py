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
# # 11 · Pruning: why is my query slow?
#
# A query wants a few rows and reads all files. **One idea: a file is skipped when its partition, its bucket,
# its smallest and largest values or its index prove that it is not needed. How you write decides what can be
# proved.** Here a slow query is mended, five times.

# %% tags=["parameters"]
seed = 7
scale = 0.01
solve = False
warehouse = None  # None: a temporary folder

# %%
from notebooks import course

course.begin("11 Pruning", solve=solve)
course.check()

# %%
import numpy as np
import pyarrow as pa

import tablestore as ts
import widgets

lake = course.lake(warehouse, seed=seed)
rows = max(round(2_000_000 * scale), 400_000)  # a compacted file takes at least 65,536
few = rows // 20  # rows of the smaller tables
writes = 6


def sales(of: range, *, of_all: int = rows, seed: int = seed) -> pa.Table:
    """Orders that were placed one after another over six months: a later key, a later month."""
    made = course.orders(len(of), first=of.start, seed=seed)
    month = pa.array(1 + np.arange(of.start - 1, of.stop - 1) * 6 // of_all, pa.int32())
    return made.append_column("month", month)


columns = {"order_id": ts.BIGINT, "city": ts.STRING, "status": ts.STRING, "amount": ts.BIGINT}
columns |= {"placed": ts.DATE, "month": ts.INT}


def create(name: str, *, key=("order_id",), partition_by=(), **options: str) -> ts.Table:
    """An empty table of sales whose writers do not compact; row groups are small, so that there are some."""
    lake.drop_table(name, if_exists=True)
    stored = {"bucket": 1, "write-only": True, "file.block-size": "256 kb"}
    stored |= {name.replace("_", "."): value for name, value in options.items()}
    return lake.create_table(name, schema=columns, primary_key=key, partition_by=partition_by, options=stored)


def read_files(of: ts.Table, where: str) -> int:
    """How many files the engine plans to read."""
    return sum(of.scan(where=ts.where(where)).explain().decisions()["kept"].to_pylist())


def kept_files(of: ts.Table, where: str) -> course.Members:
    """The files the engine plans to read, to be clicked."""
    decisions = of.scan(where=ts.where(where)).explain().decisions().to_pylist()
    return course.files(of.inspect.levels(), (row["file_name"] for row in decisions if row["kept"]))


# %% [markdown]
# ## A slow query
#
# Each write brings keys from everywhere. Somebody asks for one order.

# %%
slow = create("shop.slow")
draw = np.random.default_rng(seed)
for part in np.array_split(draw.permutation(rows), writes):
    slow.write(sales(range(1, rows + 1)).take(pa.array(np.sort(part))))
key = rows // 3
query = f"order_id = {key}"
print(f"{slow.inspect.state().num_rows} files, {rows:,} rows; where {query}")

# %% jupyter={"source_hidden": true}
first = course.task(
    "files for one order",
    f"The {writes} files are {writes} sorted runs. **Click every file that must be read** for `{query}`.",
    answer=kept_files(slow, query),
    picture=course.RunPicture(slow.inspect.levels(), by="file", key=key),
    hint="A file is skipped by its keys if the wanted one lies outside smallest … largest. Does it, here?",
    why="Every file's range contains the key, so no range proves anything. One row, and all files are read.",
)
first

# %% jupyter={"source_hidden": true} tags=["check:every_file_is_read"]
explainer = widgets.PruningExplainer(slow, where=query)
first.then(
    explainer,
    "The engine's own decisions: which rule was asked, how many files it left, and why. A hatched file is "
    "skipped, its letter says by which rule. Type another condition, or click a file.",
)

# %% [markdown]
# ## 1 · Compaction: the key range (K)
#
# Compaction sorts all runs into one. Its files follow each other.

# %% jupyter={"source_hidden": true}
slow.with_options({"target-file-size": "100 kb"}).compact(full=True)  # small files, to see several
many = slow.inspect.state().num_rows
sorted_files = course.task(
    "the same order, compacted",
    f"The table is compacted: **{many} files**, one run. **Click what is read** for `{query}` now.",
    answer=kept_files(slow, query),
    picture=course.RunPicture(slow.inspect.levels(), by="file", key=key),
    hint="In one run the ranges do not overlap. How many of them can contain a single key?",
    why="Disjoint ranges: one file can hold the key, all others are skipped by K without being opened.",
)
sorted_files

# %% jupyter={"source_hidden": true} tags=["check:one_file_of_many"]
explainer = widgets.PruningExplainer(slow, where=query)

explainer.selected = (next(mark.name for mark in explainer.model.files if mark.kept),)
groups = slow.scan(where=ts.where(query)).explain().row_groups()
sorted_files.then(
    explainer,
    "Inside a file it goes on: *row groups* have their own smallest and largest values. Of those of "
    "this file "
    f"{sum(groups['kept'].to_pylist())} of {groups.num_rows} are read.",
)

# %% [markdown]
# ## 2 · Other columns: statistics (S)
#
# Files keep the smallest and largest value of *every* column, and here a later order has a later `month`.

# %% jupyter={"source_hidden": true}
by_month = "month = 6"
stats = course.task(
    "files for one month",
    f"How many of the {many} files are read for `{by_month}`? A sixth of the orders is from that month.",
    answer=course.Number(read_files(slow, by_month), unit="files"),
    ruler=(0, many, 1, "files"),
    hint="Files are sorted by order_id, and months follow order_id. Which files hold the last month?",
    why="Only the last files hold that month. It works because `month` happens to follow the key.",
)
stats

# %% jupyter={"source_hidden": true} tags=["check:amounts_skip_nothing"]
stats.then(
    widgets.PruningExplainer(slow, where=by_month),
)

# %% [markdown]
# Now the trap. A few late changes arrive: orders of the first months get another status. They lie in a new
# run at level 0, over a wide range of keys.

# %% jupyter={"source_hidden": true}
late = course.updates(60, among=rows * 5 // 6, seed=seed)
late = late.append_column("month", pa.array(1 + (late["order_id"].to_numpy() - 1) * 6 // rows, pa.int32()))
slow.write(late)
explanation = slow.scan(where=ts.where(by_month)).explain()
kept_anyway = [row for row in explanation.decisions().to_pylist() if row["kept"] and row["note"]]
trap = course.task(
    "after a late change",
    f"The new file holds **no order of month 6**: its own statistics say so. Is it skipped for `{by_month}`?",
    options={
        "yes": "its months end before 6",
        "no": "a row in it may be newer than one in a file that is read",
    },
    answer="no" if kept_anyway else "yes",
    wrong={
        "yes": "an order may have left month 6 by the change, and its old row would be read.",
        "no": "then its rows would matter to the ones that are read.",
    },
    hint="Think of a key in both files. If only the old file were read, which of its two rows would be seen?",
    why="An update might have moved an order *out of* month 6. Skip the newer file, and the old row is back.",
)
trap

# %% jupyter={"source_hidden": true} tags=["check:overlapping_files"]
explainer = widgets.PruningExplainer(slow, where=by_month)
explainer.selected = (explainer.model.files[0].name,)
trap.then(explainer, f"{kept_anyway[0]['note']}. The remedy is the same: compact, and nothing overlaps.")

# %% [markdown]
# ## 3 · Partitions (P)
#
# If every second query asks for a month, make it a **partition**: a folder for each month. A partition column
# must be part of the key.

# %% jupyter={"source_hidden": true}
parted = create("shop.parted", key=("month", "order_id"), partition_by=("month",))
for part in np.array_split(draw.permutation(few), writes):
    parted.write(sales(range(1, few + 1), of_all=few).take(pa.array(np.sort(part))))
whole = parted.inspect.state().num_rows
partitions = course.task(
    "files in one partition",
    f"Six months, {writes} writes, each with orders of all months: **{whole} files**, nothing compacted. How "
    f"many are read for `{by_month}`?",
    answer=read_files(parted, by_month),
    options=[1, writes, 2 * writes, whole],
    wrong=lambda count: (
        "each write left a file of its own in the partition, and nobody has merged them."
        if count < writes
        else "the files of other months lie in other folders."
    ),
    hint="Each write left one file in each month it had orders of. How many did they leave in month 6?",
    why="All files of five partitions are skipped, whatever overlaps: a partition is decided exactly.",
)
partitions

# %% jupyter={"source_hidden": true} tags=["check:by_partition"]
months = widgets.PruningExplainer(parted, where=by_month)
partitions.then(months)

# %% [markdown]
# ## 4 · Buckets (B)
#
# Rows are spread over **buckets** by the hash of their key.

# %% jupyter={"source_hidden": true}
key = few // 3
query = f"order_id = {key}"
bucketed = create("shop.bucketed", bucket="4")
for part in np.array_split(draw.permutation(few), writes):
    bucketed.write(sales(range(1, few + 1), of_all=few).take(pa.array(np.sort(part))))
buckets = course.task(
    "files with four buckets",
    f"Four buckets, {writes} writes: {bucketed.inspect.state().num_rows} files, not compacted. How many are "
    f"read for `{query}`?",
    answer=read_files(bucketed, query),
    options=[1, writes, 2 * writes, 4 * writes],
    wrong=lambda count: (
        "each write left a file in the bucket, and nobody has merged them."
        if count < writes
        else "the key names one bucket, and files of others are not read."
    ),
    hint="The hash of the key names one bucket. How many files did the writes leave in it?",
    why="One bucket of four is left. Inside it the runs still overlap: compaction and buckets add up.",
)
buckets

# %% jupyter={"source_hidden": true} tags=["check:by_bucket"]
buckets.then(
    widgets.PruningExplainer(bucketed, where=query),
)

# %% [markdown]
# ## 5 · File indexes (F)
#
# Every file has small and large amounts. A *bitmap* **index** beside a file knows exactly which rows have a
# value.

# %% jupyter={"source_hidden": true}
indexed = create(
    "shop.indexed", **{"file-index.bitmap.columns": "amount", "file-index.in-manifest-threshold": "1 mb"}
)
even = sales(range(1, few + 1), of_all=few)
even = even.set_column(3, "amount", pa.array(even["amount"].to_numpy() // 2 * 2))  # no odd amount anywhere
for part in np.array_split(np.arange(few), writes):
    indexed.write(even.take(pa.array(part)))
odd = "amount = 251"
bitmap = course.task(
    "files for a value that is not there",
    f"All amounts here are even, from 4 to 498, in each of the {writes} files. How many files are read for "
    f"`{odd}`? Statistics would let all of them pass.",
    answer=read_files(indexed, odd),
    options=[0, 1, writes // 2, writes],
    wrong=lambda count: (
        "then a bitmap would have said that the value is there."
        if count
        else "then every bitmap would know that the value is not there."
    ),
    hint="The bitmap of each file is asked whether any row has this value. What does it answer?",
    why="No bitmap has the value, so no file is opened. For equality on scattered values, indexes win.",
)
bitmap

# %% jupyter={"source_hidden": true} tags=["check:by_file_index"]
index_view = widgets.PruningExplainer(indexed, where=odd)
bitmap.then(index_view)

# %% [markdown]
# ## Is it really what is read?
#
# The plan that is shown is the plan that the scan follows. And skipping never changes the result:

# %% jupyter={"source_hidden": true} tags=["check:no_row_is_lost"]
course.progress()

# %% [markdown]
# ## What to remember
#
# - Rules are asked in this order: **P**artition, **B**ucket, **K**ey range, **S**tatistics, **F**ile index;
#   then row groups inside the files that are left.
# - P, B and K may skip any file. S and F skip a file only together with all it overlaps.
# - So compaction is the first cure of a slow query: fewer runs overlap, and more can be proved.
# - Choose partitions for what most queries ask, keys for what they look up, indexes for the rest.
#
# ## Two questions to try
#
# 1. Type `order_id < 100 OR amount > 450` into a box. Why is no file skipped?
# 2. Give `shop.indexed` a bloom filter instead (`file-index.bloom-filter.columns`). Can it answer `amount >
#    450`?
#
# Next: **12 · What if**, your own table under other options.
