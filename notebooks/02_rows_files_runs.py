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
# # 2 · Rows, files, runs
#
# A table with a primary key takes new rows, newer versions of old rows, and deletes. A file system only
# takes whole files. This notebook follows a few rows from your hands to the files, and counts what reading
# them back costs. **One idea: every commit adds a sorted run, and a reader must look into every run that
# may hold its key.**
#
# You need no knowledge of databases. Each task asks you to predict something before the engine does it. Set
# `answer` and run the cell. Nothing stops if you leave it `None`.

# %% tags=["parameters"]
seed = 7
scale = 0.01
solve = False
warehouse = None  # None: a temporary folder

# %%
from notebooks import course

course.begin(solve=solve)
course.check()

# %%
import pyarrow.parquet as pq

import widgets
from tablestore import col

table = course.orders_table(course.lake(warehouse, seed=seed))
rows = max(round(100_000 * scale), 60)  # in each write
print(f"{table.name}, key {table.primary_key[0]}, {rows:,} rows a write")

# %% [markdown]
# ## From rows to one sorted file
#
# Four rows come in, in no order, and key 2 comes twice. The writer keeps them in memory, in the *write
# buffer* (other systems say memtable). At the commit it sorts them by key and writes them to one file: a
# *flush*.

# %%
arriving = course.orders(9, seed=seed).take([8, 1, 4, 1])
arriving = arriving.set_column(2, "status", [["new", "new", "new", "paid"]])
arriving.select(["order_id", "status"]).to_pandas()

# %% jupyter={"source_hidden": true}
sorted_rows = course.task(
    "rows in the file",
    "These four rows are written with one `table.write(…)`. How many rows does the data file hold?",
    answer=3,
    hint="A flush keeps one row a key. Which key comes twice, and which of its two rows is newer?",
    why="One row a key is left, the newest: 2 is `paid`. The older version never reaches the disk.",
)
sorted_rows

# %%
answer = None  # how many rows?
sorted_rows.check(answer)

# %%
table.write(arriving)
first = table.inspect.levels().to_pylist()[0]
in_file = pq.read_table(f"{table.location}/bucket-0/{first['file_name']}")
assert in_file["order_id"].to_pylist() == [2, 5, 9], "keys strictly increase inside a file"
assert in_file["status"].to_pylist()[0] == "paid", "the newest row of a key wins"
in_file.select(["_SEQUENCE_NUMBER", "_VALUE_KIND", "order_id", "status"]).to_pandas()

# %% [markdown]
# Beside your columns the file holds two of its own. `_SEQUENCE_NUMBER` says in which order rows arrived:
# the larger one is newer. `_VALUE_KIND` says what the row means: 0 is *here is a row*, 3 is *this key is
# gone*.
#
# A file whose keys increase is a **sorted run**. Finding a key in it takes a binary search, not a scan.

# %% [markdown]
# ## Many writes, many runs
#
# Files are never changed: neither the format nor object stores allow it. So each later write makes its own
# file. Let us write four more batches. They overlap: each begins a quarter of a batch after the one before.

# %% jupyter={"source_hidden": true}
writes = 4
files = course.task(
    "files after the writes",
    f"There is one file. Now come **{writes} writes** of {rows:,} rows. How many files are there then?",
    answer=1 + writes,
    hint="Nobody merges here, and no file can be changed. What does each write leave behind?",
    why="One flush a write, one file a flush. At level 0 each file is a sorted run of its own.",
)
files

# %%
answer = None  # how many files?
files.check(answer)

# %%
for number in range(writes):
    table.write(course.orders(rows, first=1 + number * rows // 4, seed=seed + number))
levels = table.inspect.levels()
assert levels.num_rows == 1 + writes
assert levels["level"].unique().to_pylist() == [0], "fresh files lie at level 0"
stored, live = sum(levels["rows"].to_pylist()), table.scan().count()
assert stored > live, "keys that came twice lie in two files"
print(f"{levels.num_rows} files hold {stored:,} rows; the table has {live:,}")

# %% [markdown]
# Here is the bucket. Each lane at the top is one sorted run, the newest first, named by the snapshot that
# made it. A box reaches from its smallest key to its largest. The strip below counts, for each key, the
# runs that may hold it. Point at a box for its numbers; click it to keep them.

# %%
widgets.LsmLevels(table)

# %% [markdown]
# ## What it costs to read one key
#
# A reader that looks for one key must ask every run whose key range contains it: any of them may hold the
# newest version. How many it asks is the **read amplification** of that key.

# %% jupyter={"source_hidden": true}
key = 1 + rows * 7 // 8
asked = table.scan(where=col("order_id") == key).explain()
verdicts = asked.to_arrow().to_pylist()
covering = [
    row for row in levels.to_pylist() if int(row["min_key"][1:-1]) <= key <= int(row["max_key"][1:-1])
]
lookup = course.task(
    "runs asked for one key",
    f"Somebody reads the order with the key **{key:,}**. How many runs must be asked? The picture knows.",
    answer=len(covering),
    hint=f"Draw a vertical line at {key:,}. Count the boxes it meets, not the runs there are.",
    why="A run is asked if its key range contains the key. The others are skipped by their range alone.",
)
lookup

# %%
answer = None  # how many runs?
lookup.check(answer)

# %% [markdown]
# The engine says the same when it plans the read, file by file, with the reason for each file it skips.

# %%
assert sum(verdict["kept"] for verdict in verdicts) == len(covering)
assert {verdict["rule"] for verdict in verdicts if not verdict["kept"]} == {"key range"}
asked

# %% [markdown]
# The rows of one key are then merged: the largest sequence number wins.

# %%
row = table.get({"order_id": key})
newest = course.orders(rows, first=1 + (writes - 1) * rows // 4, seed=seed + writes - 1).to_pylist()
assert row == next(order for order in newest if order["order_id"] == key), "the last write wins"
row

# %% [markdown]
# ## A delete is a row too
#
# A row that is gone must win over its older versions, and those lie in files that cannot be changed. So a
# delete is written as a row of its own, with the kind 3, shown as −D.

# %% jupyter={"source_hidden": true}
gone = max(rows // 10, 5)
deleting = course.task(
    "rows after a delete",
    f"The table has {live:,} rows in {levels.num_rows} files of {stored:,} rows. Now **{gone:,} of them are "
    "deleted**. How many rows do the files hold afterwards, all together?",
    answer=stored + gone,
    hint=lambda submitted: (
        f"{live - gone:,} is what a reader sees. How do the files learn that a key is gone?"
        if str(submitted).replace(",", "") == str(live - gone)
        else "No file shrinks, since none can be changed. What does the delete itself write?"
    ),
    why="The files grow by one −D row a key while the table shrinks. Compaction gives the space back.",
)
deleting

# %%
answer = None  # how many rows in all files?
deleting.check(answer)

# %%
table.delete(course.deletes(gone, among=rows, seed=seed))
levels = table.inspect.levels()
assert sum(levels["rows"].to_pylist()) == stored + gone
assert table.scan().count() == live - gone
assert levels["deletes"].to_pylist()[0] == gone, "the newest run is nothing but deletes"
widgets.LsmLevels(table)

# %% [markdown]
# The newest run is hatched: at least a fifth of its rows are deletes.
#
# ## From many runs to one
#
# Runs pile up and each read pays for it. **Compaction** merges runs: it reads them in key order, keeps the
# newest row of each key, and writes one new run. Its output goes to an older level, one with a larger number:
# older rows, larger files. From level 1 on, the files of a level do not overlap, so that a whole level is
# *one* run.

# %% jupyter={"source_hidden": true}
compacted = course.task(
    "rows after compaction",
    f"All {levels.num_rows} runs are merged into one, at the oldest level. How many rows does it hold?",
    answer=live - gone,
    hint="Older versions lose to newer ones. And what must a −D still hide, when no older row is left?",
    why="Exactly the rows of the table: old versions are dropped, and deletes, too: no older row is left.",
)
compacted

# %%
answer = None  # how many rows in all files?
compacted.check(answer)

# %%
before = table.scan().to_arrow().sort_by("order_id")
done = table.compact(full=True)
after = table.scan().to_arrow().sort_by("order_id")
assert after.equals(before), "compaction changes no row"
levels = table.inspect.levels()
assert levels["rows"].to_pylist() == [live - gone]
assert levels["level"].to_pylist() == [5]
print(done.text)

# %% [markdown]
# ## Six commits, then one that adds nothing
#
# The timeline shows every commit: ● wrote rows, ◆ compacted. The two pictures are linked: click a commit,
# or use the arrow keys, and the levels show the bucket as it was. Old files stay as long as a snapshot
# needs them: that is time travel.

# %%
timeline, levels_then = widgets.SnapshotTimeline(table), widgets.LsmLevels(table)
timeline.link(levels_then)
timeline

# %%
levels_then

# %%
commits = table.inspect.commits().to_pylist()
assert [commit["commit_kind"] for commit in commits] == ["APPEND"] * (2 + writes) + ["COMPACT"]
assert commits[-1]["files_removed"] == 2 + writes
assert table.at(snapshot=1).scan().count() == 3, "the first snapshot is still there"
timeline.snapshot = 1 + writes  # the same as a click: just before the delete
assert levels_then.snapshot == 1 + writes
assert len(levels_then.data()) == 1 + writes

# %% [markdown]
# One question with everything in it. The read amplification of a key is counted in runs.

# %% jupyter={"source_hidden": true}
last = course.task(
    "reads before and after",
    f"The same key {key:,}: how many runs must be asked **now**, at the newest snapshot?",
    answer=lambda: sum(
        v["kept"] for v in table.scan(where=col("order_id") == key).explain().to_arrow().to_pylist()
    ),
    hint="How many runs does the bucket hold after the compaction?",
    why=f"One instead of {len(covering)}. That is what compaction buys; what it costs is written twice.",
)
last

# %%
answer = None  # how many runs?
last.check(answer)

# %%
assert table.check() == [], "the table is sound"
course.progress()

# %% [markdown]
# ## What to remember
#
# - A flush sorts the write buffer and writes one file; at level 0 each file is a **sorted run**.
# - Files never change. New versions and deletes are new rows, with a larger sequence number.
# - Each run whose range contains a key is asked: runs are what reads pay for.
# - Compaction merges runs to one, drops what lost, and changes no row of the table.
#
# ## Two questions to try
#
# 1. Write the four batches with keys that do not overlap (`first=1 + number * rows`). What does the strip
#    say?
# 2. Delete everything (`table.delete(col("order_id") > 0)`). How many rows do the files hold, before and
#    after a full compaction?
#
# Next: **03 · Merging**, how runs become one, row by row.
