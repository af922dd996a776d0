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
# A table with a primary key takes rows, newer versions of rows, and deletes; a file system takes whole
# files. **One idea: every commit adds a sorted run, and a reader must look into every run that may hold its
# key.**
#
# Each task asks for a guess: click it, then *Ask the engine*. What would give it away waits until then.

# %% tags=["parameters"]
seed = 7
scale = 0.01
solve = False
warehouse = None  # None: a temporary folder

# %%
from notebooks import course

course.begin("02 Rows, files, runs", solve=solve)
course.check()

# %%
import pyarrow as pa
import pyarrow.parquet as pq

import widgets
from tablestore import col

table = course.orders_table(course.lake(warehouse, seed=seed))
rows = max(round(100_000 * scale), 60)  # in each write
print(f"{table.name}, key {table.primary_key[0]}, {rows:,} rows a write")

# %% [markdown]
# ## From rows to one sorted file
#
# Four rows come in, in no order, and key 2 comes twice. The *write buffer* (elsewhere: memtable) keeps them
# until the commit sorts them into one file: a *flush*.

# %%
arriving = course.orders(9, seed=seed).take([8, 1, 4, 1])
arriving = arriving.set_column(2, "status", [["new", "new", "new", "paid"]])
table.write(arriving)

# %% jupyter={"source_hidden": true}
first = table.inspect.levels().to_pylist()[0]
in_file = pq.read_table(f"{table.location}/bucket-0/{first['file_name']}")
flushed = list(zip(in_file["order_id"].to_pylist(), in_file["status"].to_pylist(), strict=True))
came = arriving.select(["order_id", "status"]).to_pylist()
row_of = {f"row {at}": (row["order_id"], row["status"]) for at, row in enumerate(came, start=1)}
sorted_rows = course.task(
    "rows in the file",
    "One `table.write(…)` brought these four rows. **Click those that are in the data file.**",
    answer=course.Members(tuple((name,) for name, row in row_of.items() if row in flushed), noun="row"),
    picture=course.Grid(
        ("order_id", "status"),
        tuple((name, tuple(course.Cell(str(v), name) for v in row)) for name, row in row_of.items()),
    ),
    hint="A flush keeps one row a key. Which key comes twice, and which of its two rows is newer?",
    why="One row a key is left, the newest: 2 is `paid`. The older version never reaches the disk.",
)
sorted_rows

# %% jupyter={"source_hidden": true} tags=["check:the_first_file"]
shown = in_file.select(["_KEY_order_id", "_SEQUENCE_NUMBER", "_VALUE_KIND", "order_id", "status"]).to_pandas()
sorted_rows.then(
    shown.to_string(index=False),
    "The file, with three columns of its own: the key once more; a larger `_SEQUENCE_NUMBER` is a newer row; "
    "of `_VALUE_KIND`, 0 is *here is a row*, 3 is *this key is gone*. A file whose keys increase is a "
    "**sorted run**.",
)

# %% [markdown]
# ## Many writes, many runs
#
# Files are never changed. Four more batches come; each begins a quarter of a batch after the one before, as
# orders do that are placed and soon updated.

# %%
writes = 4
for number in range(writes):
    table.write(course.orders(rows, first=1 + number * rows // 4, seed=seed + number))
levels = table.inspect.levels()

# %% jupyter={"source_hidden": true}
files = course.task(
    "files after the writes",
    f"There was one file, then came **{writes} writes** of {rows:,} rows. How many files are there now?",
    answer=levels.num_rows,
    options=[1, 2, writes, writes + 1, 2 * writes],
    wrong=lambda count: (
        "writes are not merged with what was there: files never change."
        if count < writes
        else "the file that was there before the writes still lies there, or is counted again."
    ),
    hint="Nobody merges here, and no file can be changed. What does each write leave behind?",
    why="One flush a write, one file a flush. At level 0 each file is a sorted run of its own.",
)
files

# %% jupyter={"source_hidden": true} tags=["check:a_file_a_write"]
stored, live = sum(levels["rows"].to_pylist()), table.scan().count()
files.then(f"{levels.num_rows} files hold {stored:,} rows; the table has {live:,}")

# %% [markdown]
# ## What it costs to read one key
#
# Each lane below is one sorted run, the newest on top, named by its snapshot. A box reaches from its smallest
# key to its largest. How many runs a read must ask is the **read amplification** of its key.

# %% jupyter={"source_hidden": true}
key = 1 + rows * 9 // 8
asked = table.scan(where=col("order_id") == key).explain()
kept = [verdict["file_name"] for verdict in asked.decisions().to_pylist() if verdict["kept"]]
covering = levels.filter(pa.array([name in kept for name in levels["file_name"].to_pylist()]))
lookup = course.task(
    "runs asked for one key",
    f"Somebody reads the order with the key **{key:,}**. **Click every run that must be asked.**",
    answer=course.runs(covering),
    picture=course.RunPicture(levels, key=key),
    hint="Follow the line down. Which boxes does it meet?",
    why="A run is asked if its key range contains the key; any of them may hold the newest version. The "
    "others are skipped by their range alone.",
)
lookup

# %% jupyter={"source_hidden": true} tags=["check:runs_skipped_by_range"]
lookup.then(
    widgets.LsmLevels(table),
    "The same for every key: the strip counts the runs to read.",
)

# %% tags=["check:the_last_write_wins"]
row = table.get({"order_id": key})
newest = course.orders(rows, first=1 + (writes - 1) * rows // 4, seed=seed + writes - 1).to_pylist()

# %% [markdown]
# ## A delete is a row too
#
# It must win over older versions, which lie in files that cannot be changed. So it is written as a row of
# kind 3, shown as −D.

# %%
gone = max(rows // 10, 5)
table.delete(course.deletes(gone, among=rows, seed=seed))
levels = table.inspect.levels()

# %% jupyter={"source_hidden": true}
in_files = sum(levels["rows"].to_pylist())
deleting = course.task(
    "rows after a delete",
    f"The table had {live:,} rows in files of {stored:,} rows. Then **{gone:,} of them were deleted**. How "
    "many rows do the files hold now, all together?",
    answer=in_files,
    options={
        live - gone: "what a reader sees",
        stored - gone: "the files shrink",
        stored: "the files stay as they are",
        stored + gone: "the files grow",
    },
    wrong={
        live - gone: "that is the table; its files also hold older versions and the deletes.",
        stored - gone: "no row can leave a file that is written.",
        stored: "the delete itself has to be written somewhere.",
        stored + gone: "that would be one more row for each delete.",
    },
    hint="No file shrinks, since none can be changed. What does the delete itself write?",
    why="The files grow by one −D row a key while the table shrinks. Compaction gives the space back.",
)
deleting

# %% jupyter={"source_hidden": true} tags=["check:files_grow_by_a_delete"]
deleting.then(
    widgets.LsmLevels(table),
    "Hatched: at least a fifth of the rows are deletes.",
)

# %% [markdown]
# ## From many runs to one
#
# **Compaction** merges runs in key order, keeps the newest row of each key, and writes one run to a level
# with a larger number: older rows, larger files. From level 1 on a whole level is *one* run.

# %% tags=["check:the_same_rows"]
before = table.scan().to_arrow().sort_by("order_id")
done = table.compact(full=True)
after = table.scan().to_arrow().sort_by("order_id")

# %% jupyter={"source_hidden": true}
compacted = course.task(
    "rows after compaction",
    f"All {levels.num_rows} runs were merged into one, at the oldest level. How many rows does it hold?",
    answer=sum(table.inspect.levels()["rows"].to_pylist()),
    options={
        live - gone: "what a reader sees",
        live: "that, and the −D rows",
        stored: "all that was written, without the −D rows",
        stored + gone: "all rows of all runs",
    },
    wrong={
        live - gone: "that would be the rows of the table and nothing else.",
        live: "a −D at the oldest level has nothing left to hide.",
        stored: "older versions of a key lose to the newest one and are dropped.",
        stored + gone: "a merge keeps one row a key, and drops the others.",
    },
    hint="Older versions lose to newer ones. And what must a −D still hide, when no older row is left?",
    why="Exactly the rows of the table: old versions are dropped, and deletes, too: no older row is left.",
)
compacted

# %% jupyter={"source_hidden": true} tags=["check:one_run_is_left"]
compacted.then(
    done.text,
    f"A read of key {key:,} asks one run now instead of {len(kept)}.",
)

# %% [markdown]
# ## Time travel
#
# ● wrote rows, ◆ compacted. Click a commit, or use the arrow keys: the levels show the bucket as it was,
# since old files stay as long as a snapshot needs them.

# %%
timeline, levels_then = widgets.SnapshotTimeline(table), widgets.LsmLevels(table)
timeline.link(levels_then)
compacted.then(timeline)

# %%
compacted.then(levels_then)

# %% jupyter={"source_hidden": true} tags=["check:every_commit_can_be_read"]
timeline.snapshot = 1 + writes  # the same as a click: just before the delete
course.progress()

# %% [markdown]
# ## What to remember
#
# - A flush writes one sorted file; at level 0 each file is a **run**.
# - Files never change. New versions and deletes are new rows, with a larger sequence number.
# - Runs are what reads pay for; compaction merges them and changes no row of the table.
#
# ## Two questions to try
#
# 1. Write the four batches with keys that do not overlap (`first=1 + number * rows`). What does the strip
#    say?
# 2. Delete everything (`table.delete(col("order_id") > 0)`). How many rows do the files hold, before and
#    after a full compaction?
#
# Next: **03 · Merging**, how runs become one, row by row.
