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
# # 17 · Log and lake
#
# Files are good at a million rows and bad at one: readers wait for the next commit. A log is the other way
# round. So a table may have both. **One idea: files and log hold the same rows in the same order, and every
# snapshot names the offset of the log up to which its files go.**
#
# The log of this notebook lies in the directory of the table. It needs no server.

# %% tags=["parameters"]
seed = 7
batches = 60  # of the visibility lab
kafka = False  # True: the lab once more with a private Kafka as the log (needs Java)
warehouse = None  # None: a temporary folder
solve = False

# %%
from notebooks import course

course.begin("17 Log and lake", solve=solve)
course.check()

# %% [markdown]
# ## A table with a log
#
# `log.consistency` says when readers of the log see a row: `transactional` with its commit, `eventual` at
# once.

# %%
import json
from contextlib import ExitStack

import tablestore as ts
import widgets
from notebooks.demo import visibility

lake = course.lake(warehouse, seed=seed)
LOG = {"log.system": "embedded"}
EVENTUAL = {"log.consistency": "eventual", "log.changelog-mode": "upsert"}
table = course.orders_table(lake, LOG | EVENTUAL)
table.write(course.orders(100, seed=seed))
table.write(course.orders(100, first=101, seed=seed))
table.write(course.updates(30, among=200, seed=seed))
print(table.log)

# %% [markdown]
# 200 orders and 30 updates went into the log. Each has its **offset**. Where the log meets the files stands
# in the snapshot:

# %% tags=["check:offsets_in_the_snapshot"]
newest = table.store.snapshots.latest()
offsets = json.loads(newest.properties["tablestore.log-offsets"])
print(f"snapshot {newest.id}: {offsets}")

# %% [markdown]
# ## Rows before their commit
#
# A writer is at work and has not committed. The log has its rows already.

# %%
work = ExitStack()  # a `with` that ends further down
writer = work.enter_context(table.writer())
writer.write(course.orders(50, first=201, seed=seed))
writer.write(course.updates(20, among=200, seed=seed + 1))
print(table.log)

# %% jupyter={"source_hidden": true}
where = course.task(
    "the switch",
    "A new reader starts now: first the rows of the newest snapshot, then the log. **At which offset does it "
    "begin to read the log?** The ruler is the log.",
    answer=lambda: table.log.in_files[0],
    ruler=(table.log.start[0], table.log.end[0], 10),
    hint="What is below the offset that the snapshot names is in its files. Which rows would come twice if "
    "it began at the start, which would be left out if it began at the end?",
    why="Below lies what the snapshot has, behind it what only the log has. One number, no overlap.",
)
where

# %%
steps = list(table.stream(timeout=0.0, normalize=False))
lanes = widgets.LogAndLake(table, reader=steps, follow=0)

# %% jupyter={"source_hidden": true} tags=["check:files_then_log"]
where.then(
    lanes,
    "Above the log with its files, below the snapshots, each at its offset, and the way of this reader "
    "through both. What lies to the right of the newest snapshot is in the log only.",
)

# %% [markdown]
# A **union read** asks for the same rows at once: it merges the snapshot with the log behind it, as a commit
# would. In SQL it is a hint.

# %% jupyter={"source_hidden": true}
fresh = course.task(
    "fresh to the second",
    "The snapshot has 200 orders. Not committed are 50 new orders and 20 updates. What does "
    "`table.scan(log=True).count()` say?",
    answer=lambda: table.scan(log=True).count(),
    options={
        200: "what the snapshot has",
        230: "each row that is in files",
        250: "the orders, old and new",
        270: "those, and the updates",
    },
    wrong={
        200: "that leaves the log out, and `log=True` asks for it.",
        230: "rows that are not committed lie in the log, and in no file yet.",
        250: "that would count each order once.",
        270: "an update replaces a row; it is not one more.",
    },
    hint="The rows of the log are merged by key, they are not just appended.",
    why="20 of the 70 rows replace orders that are there.",
)
fresh

# %%
hinted = "SELECT count(*) AS orders FROM shop.orders /*+ OPTIONS('tablestore.scan.log'='true') */"
counts = table.scan().count(), table.scan(log=True).count(), lake.sql(hinted).to_arrow()["orders"][0].as_py()
before = table.scan(log=True).to_arrow().sort_by("order_id")
work.close()  # the end of the `with`: it commits

# %% jupyter={"source_hidden": true} tags=["check:fresh_rows"]
fresh.then(
    "snapshot alone: {}\nwith the log:   {}\nin SQL:         {}".format(*counts),
    "Then the writer committed. It changed nothing for such a reader.",
)

# %% [markdown]
# ## A reader that is too slow
#
# A log is not kept for ever: what `log.retention` drops is in files by then. A reader has been away for an
# hour and a half.

# %%
short = course.orders_table(lake, LOG | {"log.retention": "30 min", "write-only": False}, name="shop.short")
short.write(course.orders(100, seed=seed))
away = list(short.stream(timeout=0.0))[-1].cursor
for number in range(1, 4):
    short.write(course.orders(10, first=1 + 100 * number, seed=seed))
later = ts.open(short.location, env=course.LaterEnv(minutes=90))
later.write(course.orders(10, first=501, seed=seed))
print("the reader stands at", json.loads(away)["log"])
print("the log begins at   ", later.log.start)

# %% jupyter={"source_hidden": true}
found = list(later.stream(start=away, timeout=0.0))
rows = sum(step.to_arrow().num_rows for step in found)
gap = course.task(
    "a gap in the log",
    "The log lacks 30 of the 40 rows that came meanwhile. What does the reader get?",
    answer={40: "all", 10: "rest"}.get(rows, "error" if not rows else "again"),
    options={
        "all": "the 40 rows",
        "rest": "the 10 rows that the log still has",
        "again": "the whole table, to start anew",
        "error": "an error",
    },
    wrong={
        "all": "the log alone does not have them.",
        "rest": "the reader would miss 30 rows, and files have them.",
        "again": "the reader knows which commits it has seen, and need not start anew.",
        "error": "what the log has dropped is in files.",
    },
    hint="What the log drops is in files by then, and each commit knows which rows it brought.",
    why="Files step in, commit by commit, and say so. Then the reader is back in the log.",
)
gap

# %% jupyter={"source_hidden": true} tags=["check:no_gap"]
gap.then(
    widgets.LogAndLake(later, reader=found, follow=0),
)

# %% [markdown]
# ## Killed between log and snapshot
#
# A commit writes to the log and to files. A writer can be killed anywhere in between. The lab kills it before
# each of its operations.

# %%
exact = course.orders_table(lake, LOG, name="shop.exact")
exact.write(course.orders(100, seed=seed))
crashes = course.CrashLab(
    exact, lambda t: t.write(course.orders(10, first=500, seed=seed), user="till", identifier=1), seed=seed
)

# %% jupyter={"source_hidden": true}
said = {
    "data file": "the rows, sorted by key",
    "log": "the rows, in the order in which they came",
    "manifest": "the names of the data files",
    "snapshot": "the manifest, and an offset of the log",
}
names = {".parquet": "data file", ".log": "log", "manifest-": "manifest", "snapshot-": "snapshot"}
operations = [operation.name for _, operation in crashes.steps]
written = dict.fromkeys(name for each in operations for part, name in names.items() if part in each)
commit = course.task(
    "what a commit writes",
    "In which order does a `transactional` commit write these? Drag them.",
    answer=course.Order({name: said[name] for name in written}),
    hint="What is named must be there before its name. And who sees the log before its rows are in a file?",
    why="What is named is there first. Files that nothing names are harmless; so the log comes after them.",
)
commit

# %% jupyter={"source_hidden": true}
between = course.task(
    "in between",
    "A writer is killed when its rows are in the log and its snapshot is not there yet. What becomes of "
    "them?",
    answer="finished",
    options={
        "lost": "they are lost: without a snapshot there is no commit",
        "seen": "readers of the log have them, readers of the table never will",
        "finished": "nobody sees them until the next writer comes, which completes the commit first",
        "again": "the writer has to write them again",
    },
    wrong={
        "lost": "the log has them, and it says which commit they belong to.",
        "seen": "readers of the log would have what the table never gets: both must agree.",
        "finished": "then somebody has to find them in the log.",
        "again": "the log has them, so whoever comes next need not ask the writer.",
    },
    hint="The log is the order. What must be true of the files for a reader to switch from one to the other?",
    why="Files are always a prefix of the log. Who comes next brings them up to it, under the old writer's "
    "name: if that one writes them again, it is told that they are there.",
)
between

# %% jupyter={"source_hidden": true} tags=["check:kills_between"]
in_log = next(n for n, (_, operation) in enumerate(crashes.steps) if operation.name.endswith(".log"))
between.then(crashes.view(at=in_log + 1))

# %% [markdown]
# ## The visibility lab
#
# When should a writer make its rows visible: at each write, or at its checkpoint? In the files, in the log?
# Four designs get the same rows: a batch each 20 ms, a checkpoint after 12 of them. After one crash the next
# process goes on from the last checkpoint.
#
# Every table refuses the third; the lab builds it from parts.

# %%
try:
    keyless = {"bucket": 1, "bucket-key": "order_id", "log.consistency": "eventual"}
    lake.create_table("shop.keyless", schema=course.ORDERS, options=LOG | keyless)
except ts.TablestoreError as refused:
    print(refused)

# %%
load = visibility.Load(batches=batches, crash=batches * 2 // 3)
lab = visibility.run(load)

# %% jupyter={"source_hidden": true}
since = load.crash % load.checkpoint
guesses = {0: "a log knows what it has", load.rows: "one batch"}
guesses |= {
    since * load.rows: "what came since the checkpoint",
    load.checkpoint * load.rows: "a whole checkpoint",
}
twice = course.task(
    "without a key",
    f"Rows go to the log at once, to files at the checkpoint, and there is no key. Batches are numbered from "
    f"0 and have {load.rows} rows, a checkpoint is after each {load.checkpoint}th; the writer is lost before "
    f"batch {load.crash}. How many rows does a reader of the log get twice?",
    answer=lambda: lab[3].doubles,
    options=guesses,
    wrong=lambda count: (
        "the next writer begins at the checkpoint, and without a key nobody sees that rows came before."
        if not count
        else "the next writer begins at the last checkpoint: count the batches from there to the loss."
    ),
    hint="From which batch does the next process write again? Which of these are in the log already?",
    why="What was visible since the last checkpoint is written again, and nobody can tell: there is no key.",
)
twice

# %% jupyter={"source_hidden": true} tags=["check:four_designs"]
twice.then(
    lab,
    "Each dot is a batch, its height the time until the reader had it, by powers of ten. Design 2 is a "
    "sawtooth: the first batch after a checkpoint waits longest. Rings are doubles; a sum over them is "
    "wrong. Design 4 waits a little for its normaliser, which keeps the last row of each key and drops what "
    "comes again.",
)

# %%
twice.then(str(lab))

# %% jupyter={"source_hidden": true}
design = course.task(
    "which design",
    "Payments are summed up, and a wrong sum is worse than a late one. **Which design has no row too early "
    "and writes the fewest files?**",
    answer=str(min((o for o in lab.outcomes if not o.early), key=lambda o: o.data_files).number),
    options={str(outcome.number): outcome.design for outcome in lab.outcomes},
    wrong={
        "1": "it writes a file for each write.",
        "2": "its rows wait for the checkpoint.",
        "3": "its rows are seen before their commit, and some of them twice.",
        "4": "its rows are seen before their commit.",
    },
    hint="Who shows rows only with their commit? And who writes a file at each of a thousand writes?",
    why="`transactional`: at the checkpoint, in the files and in the log. 4, `eventual`, is for dashboards: "
    "rows are there at once, and need a key. 1 is for rare, large writes.",
)
design

# %% jupyter={"source_hidden": true} tags=["check:the_second_design"]
design.then(
    widgets.BarChart(lab.to_arrow(), label="design", value="data_files", title="Data files of the same rows")
)

# %% [markdown]
# With `kafka = True` in the first cell the same runs with a topic as the log.

# %%
if kafka:
    from notebooks.demo.kafka import KafkaBroker, missing

    course.need(missing())
    with KafkaBroker() as broker:
        topic = {"log.system": "kafka", "kafka.bootstrap.servers": broker.address}
        print(visibility.run(load, designs=(2, 4), log=topic))

# %%
course.progress()

# %% [markdown]
# ## What to remember
#
# - Files are always a **prefix of the log**; every snapshot names the **offset** where it ends.
# - `t.stream()` switches at that offset; `t.scan(log=True)` merges behind it.
# - The log may forget, the files do not: a slow reader gets the rest from them, and is told.
# - **transactional**: exactly once, as late as the checkpoint. **eventual**: at once, needs a key.
#
# ## Two questions to try
#
# 1. `visibility.run(visibility.Load(checkpoint=30, crash=50))`: what becomes of design 2, what of design 4?
# 2. `visibility.run(visibility.Load(rows=4000))`, a thousand times the rows: how much later are they seen?
#
# Next: **18 · Tiering**.
