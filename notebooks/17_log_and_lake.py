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
# snapshot names the offset of the log up to which its files go.** A reader takes the snapshot, then the log
# from that offset: no gap, nothing twice.
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

course.begin(solve=solve)
course.check()

# %% [markdown]
# ## A table with a log
#
# Two options make the difference. `log.consistency` says when readers of the log see a row: `transactional`
# with its commit, `eventual` at once.

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
# 230 rows went into the log: 200 orders and 30 updates. Each has its **offset**, and all are in files, too.
# Where the two meet stands in the snapshot, as one of its properties.

# %%
newest = table.store.snapshots.latest()
offsets = json.loads(newest.properties["tablestore.log-offsets"])
print(f"snapshot {newest.id}: {offsets}")
assert {int(bucket): offset for bucket, offset in offsets.items()} == table.log.end == table.log.in_files

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
    "A new reader starts now: first the rows of the newest snapshot, then the log. At which offset does it "
    "begin to read the log?",
    answer=lambda: table.log.in_files[0],
    hint="What is below the offset that the snapshot names is in its files. Which rows would come twice if "
    "it began at the start, which would be left out if it began at the end?",
    why="Below lies what the snapshot has, behind it what only the log has. One number, no overlap.",
)
where

# %%
answer = None  # an offset
where.check(answer)

# %%
steps = list(table.stream(timeout=0.0, normalize=False))
for step in steps:
    print(f"{step.source:5}  {step.to_arrow().num_rows:>3} rows, then at {json.loads(step.cursor)['log']}")
assert [step.source for step in steps] == ["files", "log"]
assert json.loads(steps[0].cursor)["log"]["0"] == where.answer.own
assert steps[1].to_arrow().num_rows == table.log.end[0] - where.answer.own

# %% [markdown]
# Above the log with its files, below the snapshots, each at the offset that it names, and the way of this
# reader through both. What lies to the right of the newest snapshot is in the log only. Point at a segment or
# a snapshot.

# %%
lanes = widgets.LogAndLake(table, reader=steps)
assert lanes.model.log_only == 70
lanes

# %% [markdown]
# The same rows, asked for with a question instead of a stream: a **union read** merges the snapshot with the
# log behind it, as a commit would. In SQL it is a hint.

# %% jupyter={"source_hidden": true}
fresh = course.task(
    "fresh to the second",
    "The snapshot has 200 orders. Not committed are 50 new orders and 20 updates. What does "
    "`table.scan(log=True).count()` say?",
    answer=lambda: table.scan(log=True).count(),
    hint="The rows of the log are merged by key, they are not just appended.",
    why="20 of the 70 rows replace orders that are there.",
)
fresh

# %%
answer = None  # a number
fresh.check(answer)

# %%
hinted = "SELECT count(*) AS orders FROM shop.orders /*+ OPTIONS('tablestore.scan.log'='true') */"
print("snapshot alone:", table.scan().count())
print("with the log:  ", table.scan(log=True).count())
print("in SQL:        ", lake.sql(hinted).to_arrow()["orders"][0])
assert table.scan().count() == 200
assert lake.sql(hinted).to_arrow()["orders"][0].as_py() == fresh.answer.own

# %%
before = table.scan(log=True).to_arrow().sort_by("order_id")
work.close()  # the end of the `with`: it commits
assert table.scan().to_arrow().sort_by("order_id").equals(before), "the commit changed nothing for them"
assert lanes.refresh().unwatch().model.log_only == 0
print("now the lanes above are of one length:", table.log)

# %% [markdown]
# ## A reader that is too slow
#
# A log is not kept for ever: `log.retention` says how long. What it drops is in files by then. A reader has
# been away for an hour and a half.

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

# %%
found = list(later.stream(start=away, timeout=0.0))
for step in found:
    print(f"{step.source:5}  {step.to_arrow().num_rows:>2} rows  {step.reason or ''}")
assert [step.source for step in found] == ["files"] * 3 + ["log"]
assert sum(step.to_arrow().num_rows for step in found) == 40, "no gap, nothing twice"

# %% [markdown]
# The files step in for what the log no longer has, commit by commit, and say so. Then the reader is back in
# the log. The picture shows how it went through both.

# %%
widgets.LogAndLake(later, reader=found, follow=0)

# %% [markdown]
# ## Killed between log and snapshot
#
# A commit writes twice: first the log, then the snapshot. A writer can be killed in between.

# %% jupyter={"source_hidden": true}
between = course.task(
    "in between",
    "A `transactional` writer is killed when its rows are in the log and its snapshot is not there yet. What "
    "becomes of the rows?",
    answer="finished",
    options={
        "lost": "they are lost: without a snapshot there is no commit",
        "seen": "readers of the log have them, readers of the table never will",
        "finished": "nobody sees them until the next writer comes, which completes the commit first",
        "again": "the writer has to write them again",
    },
    hint="The log is the order. What must be true of the files for a reader to switch from one to the other?",
    why="Files are always a prefix of the log. Who comes next brings them up to it, under the old writer's "
    "name: if that one writes them again, it is told that they are there.",
)
between

# %%
answer = None  # one of the options
between.check(answer)

# %% [markdown]
# The engine is killed for real, before each of its operations. Choose the one behind `log` and look at what a
# new process finds.

# %%
exact = course.orders_table(lake, LOG, name="shop.exact")
exact.write(course.orders(100, seed=seed))
crashes = course.CrashLab(
    exact, lambda t: t.write(course.orders(10, first=500, seed=seed), user="till", identifier=1), seed=seed
)
killed = crashes.run()
in_log = next(n for n, (_, operation) in enumerate(crashes.steps) if operation.name.endswith(".log"))
assert all(crash.safe for crash in killed), "each kill is healed by whoever writes next, exactly once"
assert not killed[in_log + 1].visible, "in the log, not yet in a snapshot: nobody sees it"
crashes.view(at=in_log + 1)

# %% [markdown]
# ## The visibility lab
#
# When should a writer make its rows visible: at each write, or at its checkpoint? In the files, in the log?
# The design of this store weighs four answers. Here they are on the same rows: a batch each 20 ms, a
# checkpoint after 12 of them. One crash, between two checkpoints; the next process goes on from the last one.
#
# The third is refused by every table, and rightly so, as you will see. So the lab builds it from parts.

# %%
try:
    keyless = {"bucket": 1, "bucket-key": "order_id", "log.consistency": "eventual"}
    lake.create_table("shop.keyless", schema=course.ORDERS, options=LOG | keyless)
except ts.TablestoreError as refused:
    print(refused)
assert "shop.keyless" not in lake.tables()

# %% jupyter={"source_hidden": true}
load = visibility.Load(batches=batches, crash=batches * 2 // 3)
lab = visibility.run(load)
twice = course.task(
    "without a key",
    f"Rows go to the log at once, to files at the checkpoint, and there is no key. Batches are numbered from "
    f"0 and have {load.rows} rows, a checkpoint is after each {load.checkpoint}th; the writer is lost before "
    f"batch {load.crash}. How many rows does a reader of the log get twice?",
    answer=lambda: lab[3].doubles,
    hint="From which batch does the next process write again? Which of these are in the log already?",
    why="What was visible since the last checkpoint is written again, and nobody can tell: there is no key.",
)
twice

# %%
answer = None  # a number
twice.check(answer)

# %%
lab

# %%
print(lab)

# %%
assert lab[1].data_files > lab[2].data_files * 5, "files at once: a small file for each write"
assert lab[2].doubles == lab[2].early == 0, "both at the checkpoint: exactly once, and as late as that"
assert lab[3].doubles > 0 < lab[3].taken_back, "at once without a key: seen too early, and twice"
assert lab[4].twice_in_log > 0 == lab[4].doubles, "with a key: twice in the log, once at the reader"
assert lab[4].early > 0, "and rows are there before their commit"
assert all(outcome.never == 0 and outcome.files_agree for outcome in lab.outcomes)

# %% [markdown]
# Each dot is a batch, its height the time until the reader had it (by powers of ten). Design 2 is a sawtooth:
# the first batch after a checkpoint waits longest. Rings are doubles; a sum over them is wrong.
#
# In the table, *early* are rows that the reader had before a commit of them had begun. *Taken back* are those
# that it had when the writer was lost, and that the next process did not find in the table. Design 4 has rows
# early, too, but none is taken back: who comes next brings the files up to the log.
#
# What 4 waits for longer than 3 is its normaliser, which keeps the last row of each key and looks up what was
# before: 1 to 3 ms a step. A reader that replaces by key anyway asks for `stream(normalize=False)`.
#
# | | visible | after a crash | use it for |
# |---|---|---|---|
# | 1 | at each write | exact | rare, large writes: a thousand writes are a thousand files |
# | 2 `transactional` | at the checkpoint | exact | money |
# | 3 | at once | doubles | refused |
# | 4 `eventual` | at once | the same row may come again; a normaliser drops it | dashboards, lookups |

# %%
widgets.BarChart(lab.to_arrow(), label="design", value="data_files", title="Data files of the same rows")

# %% [markdown]
# With `kafka = True` in the second cell the same two designs run with a topic as the log. `log.system` and
# `kafka.bootstrap.servers` are all that changes.

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
# Next: **18 · Tiering**: what is new in a streaming cluster, copied into the lake.
