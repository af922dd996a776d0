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
# # 7 · Two writers
#
# Two programs write to one table at the same time, with no lock and no transactions. Still no row is lost and
# none is doubled. **One idea: a commit is one file that must not exist yet. Who finds it there looks again,
# and decides whether its work still holds.** Here two real writers are stepped by hand.

# %% tags=["parameters"]
seed = 7
solve = False
warehouse = None  # None: a temporary folder

# %%
from notebooks import course

course.begin("07 Two writers", solve=solve)
course.check()

# %% tags=["check:three_snapshots"]
import widgets
from tablestore import col


def orders_of_three_commits():
    """A table of 200 orders, in three runs."""
    table = course.orders_table(course.lake(warehouse, seed=seed))
    for number in range(3):
        table.write(course.orders(100, first=1 + 50 * number, seed=seed))
    return table


def race_of(table, a, b):
    """A stands just before it publishes, B goes from start to end, then A goes on."""
    made = course.Race(table, {"A": a, "B": b}, seed=seed)
    made.run("A", until="publish")
    made.run("B")
    made.run("A")
    return made


table = orders_of_three_commits()
rows_before = table.scan().count()
print(f"{rows_before} orders, newest snapshot #3")

# %% [markdown]
# ## One writer, step by step
#
# `step` lets a writer take one step and says what it is about to do next.

# %% tags=["check:all_at_once"]
alone = course.Race(table, {"A": lambda t: t.write(course.orders(10, first=1000, seed=seed))}, seed=seed)
while alone.outcome("A").kind == "running":
    alone.step("A")
walk = alone.view("One writer")
walk

# %% [markdown]
# Click a step, or use ← and →. It **looks**: #3 is the newest snapshot. It writes files under fresh names
# that no snapshot names. It **publishes**: it puts `snapshot-4`, *if there is no such file yet*. This one
# operation is the commit.

# %% jupyter={"source_hidden": true}
seen = [at for at, step in enumerate(alone.steps) if step.snapshot == 4]
visible = course.task(
    "when it counts",
    "The writer took these steps one after another. **Click the one from which on readers see its rows.**",
    answer=course.Each((f"step {seen[0] + 1}",)),
    picture=course.Grid(
        ("what it does",),
        tuple(
            (f"step {at}", (course.Cell(step.title, f"step {at}"),))
            for at, step in enumerate(alone.steps, start=1)
        ),
    ),
    hint="Files that no snapshot names do not count. Which step names them?",
    why="Everything before the put is invisible, everything after it is decoration.",
)
visible

# %% [markdown]
# ## Two appends
#
# A gets ready and stands just before it publishes #5. Then B goes from start to end. Then A goes on.

# %%
race = race_of(
    table,
    lambda t: t.write(course.orders(10, first=2000, seed=seed)),
    lambda t: t.write(course.orders(10, first=3000, seed=seed)),
)

# %% jupyter={"source_hidden": true}
a, b = race.outcome("A"), race.outcome("B")
files = [step for step in race.steps if step.kind == "data" and step.lane == 0]
became = "refused" if a.kind == "refused" else "again" if len(files) == 1 else "anew"
appends = course.task(
    "append, append",
    "Both writers add rows. B was faster and took the name `snapshot-5`. What becomes of A?",
    answer=became,
    options={
        "lost": "its rows are lost: B's snapshot stands",
        "refused": "it is refused with a `CommitConflict`",
        "again": "it looks again and publishes #6, its data files as they are",
        "anew": "it reads the table again and writes new data files, then publishes #6",
    },
    wrong={
        "lost": "the name was taken before A's snapshot was there, and A knows that.",
        "refused": "a conflict needs files that both take away, and A only adds some.",
        "again": "that works only where its files are right beside those of B.",
        "anew": "its data files hold its own rows, whatever the table has: only lists were wrong.",
    },
    hint="A only adds files. Is there anything in B's snapshot that makes A's new files wrong?",
    why="New files contradict nothing. A writes new manifests on top of B's snapshot; its data files stay.",
)
appends

# %% jupyter={"source_hidden": true} tags=["check:both_appends"]
appends.then(
    race.view("Append against append"),
    "The crossed-out #5 is A's lost try: *this file is there already*. A removed the two manifest lists that "
    "had become wrong, looked at #5, and published #6.",
)

# %% [markdown]
# ## Your own race
#
# A button for each writer: one press, one step. Can you make both lose a try? Can you lose a row?

# %%
own = course.orders_table(course.lake(None, seed=seed), name="shop.yours")
own.write(course.orders(100, seed=seed))
yours = course.Race(
    own,
    {
        "A": lambda t: t.write(course.orders(10, first=1000, seed=seed)),
        "B": lambda t: t.write(course.orders(10, first=2000, seed=seed)),
    },
    seed=seed,
)
yours.live("Your race")

# %% [markdown]
# ## Two compactions
#
# Both merge all runs into one: each takes the same files away and adds one of its own.

# %%
before = table.scan().to_arrow().sort_by("order_id")
merging = race_of(table, lambda t: t.compact(full=True), lambda t: t.compact(full=True))
refused = merging.outcome("A")

# %% jupyter={"source_hidden": true}
compactions = course.task(
    "compact, compact",
    "A stands before its publish; B's compaction is published first. What becomes of A's?",
    answer="refused" if refused.kind == "refused" else "again",
    options={
        "again": "it looks again and publishes, like an append",
        "refused": "it is refused: what it merged is not there any more",
        "both": "both outputs are live; a reader merges them",
    },
    wrong={
        "again": "an append takes nothing away, but A's commit names files that B has taken away already.",
        "refused": "that would need something that both have taken.",
        "both": "every row would be there twice, in files that both claim to be all of it.",
    },
    hint="A's commit says: take these runs away, add this one. Which of these runs are still there after B?",
    why="A file can be taken away once. With A's output on top every row would be there twice, in two runs.",
)
compactions

# %% jupyter={"source_hidden": true} tags=["check:the_second_compaction"]
compactions.then(
    merging.view("Compaction against compaction"),
    "The dashed line shows who was in the way, the panel gives the engine's own words. A removed all it had "
    "written.",
)

# %% [markdown]
# ## A compaction and an append
#
# Compactions are slow and writers do not wait. A merges; meanwhile B appends an update of an order that A is
# merging.

# %%
table.write(course.updates(20, among=50, seed=seed))
order = 5
paid = course.orders(1, first=order, seed=seed).set_column(2, "status", [["paid twice"]])
busy = race_of(table, lambda t: t.compact(full=True), lambda t: t.write(paid))

# %% jupyter={"source_hidden": true}
read = table.get({"order_id": order})["status"]
mixed = course.task(
    "compact, append",
    "A's compaction is ready to be published, based on the snapshot before B's append. What becomes of it?",
    answer="refused" if busy.outcome("A").kind == "refused" else "again" if read == "paid twice" else "stale",
    options={
        "again": "it looks again and is published on top of B's snapshot",
        "refused": "it is refused: the table has changed",
        "stale": "it is published, and B's update is lost under A's older row",
    },
    wrong={
        "again": "that needs all files that A takes away to be there still.",
        "refused": "B only added a file; all that A has read is still there.",
        "stale": "B's run lies at level 0 and is newer than A's output, so its row is read first.",
    },
    hint="Are all files that A takes away still there? Which run is newer: B's at level 0, or A's output?",
    why="Its inputs are all still live. B's run, at level 0, is newer than A's output, so B's row wins.",
)
mixed

# %% jupyter={"source_hidden": true} tags=["check:compaction_and_append"]
mixed.then(
    busy.view("Compaction against append"),
)

# %% jupyter={"source_hidden": true}
mixed.then(
    widgets.LsmLevels(table),
    "The bucket after both: B's small run is newer than A's merged one.",
)

# %% [markdown]
# ## Deletes of files that are being compacted
#
# A table without a primary key marks places in a file as deleted (a *deletion vector*). A merges three files
# into one, and B marks a few rows of the first of them.

# %%
events = course.lake(None, seed=seed).create_table(
    "shop.events",
    schema=course.ORDERS,
    options={"bucket": -1, "write-only": True, "deletion-vectors.enabled": True},
)
for number in range(3):
    events.write(course.orders(100, first=1 + 100 * number, seed=seed))
marking = race_of(events, lambda t: t.compact(full=True), lambda t: t.delete(col("order_id") < 10))

# %% jupyter={"source_hidden": true}
deletes = course.task(
    "compact, delete",
    "All files that A took as inputs are still live: B only marked rows in one. May A publish its file?",
    answer="refused" if marking.outcome("A").kind == "refused" else "again",
    options={
        "again": "yes: the files it takes away are all there",
        "refused": "no: its output still holds the rows that B deleted",
    },
    wrong={
        "again": "the files are there, but B has marked rows in one, and A's output has these rows unmarked.",
        "refused": "that would need rows in A's output that are wrong now.",
    },
    hint="A read its inputs before B marked the rows. What is in A's output, and who would mask it there?",
    why="A's output holds what B deleted, and B's marks belong to a file A takes away: rows would come back.",
)
deletes

# %% jupyter={"source_hidden": true} tags=["check:compaction_and_delete"]
deletes.then(
    marking.view("Compaction against delete"),
)

# %% jupyter={"source_hidden": true} tags=["check:delete_and_compaction"]
late = race_of(events, lambda t: t.delete(col("order_id") < 20), lambda t: t.compact(full=True))
deletes.then(
    late.view("Delete against compaction"),
    "The other way round the delete comes late. It looks again, finds the rows in the merged file and marks "
    "them there.",
)

# %% [markdown]
# ## An overwrite and an append
#
# `overwrite` replaces all rows. Here order decides: A wants to replace everything by 10 orders, B adds 10
# others. Each try of an overwrite looks at what is there *then*.

# %%
whole = race_of(
    table,
    lambda t: t.overwrite(course.orders(10, seed=seed)),
    lambda t: t.write(course.orders(10, first=5000, seed=seed)),
)

# %% jupyter={"source_hidden": true}
replacing = course.task(
    "overwrite, append",
    "A, the overwrite, stands before its publish; B's append of 10 rows is published; A goes on and "
    "publishes. How many rows are in the table?",
    answer=table.scan().count(),
    options={10: "those of A", 20: "those of A and of B", rows_before: "those before: A is refused"},
    wrong={
        10: "that is what A brings: B's file would have to be gone.",
        20: "B's file is live when A looks again, and an overwrite takes away all that is live.",
        rows_before: "an overwrite asks for nothing of what was there, so it is not refused.",
    },
    hint="A lost its try and looked again. Which files does it take away the second time?",
    why="Looking again, A takes B's file away too. The table is as if B had come first and A after it.",
)
replacing

# %% jupyter={"source_hidden": true} tags=["check:the_overwrite"]
replacing.then(
    whole.view("Overwrite against append"),
    "Every race gives the result of *some* order of the two, one after the other. That is what "
    "*serializable* "
    "means, and no lock was needed.",
)

# %% jupyter={"source_hidden": true} tags=["check:sound"]
course.progress()

# %% [markdown]
# ## What to remember
#
# - A commit is one *put if absent*.
# - Who loses looks again. Files that were only **added** stay right, so appends always get through.
# - What **takes files away** is checked against what is there now: gone, or marked meanwhile, is refused.
# - A refused commit removes its files and changes nothing.
#
# ## Two questions to try
#
# 1. Race three writers (`{"A": …, "B": …, "C": …}`), all appending, all standing before their publish. How
#    often does the last one lose?
# 2. Let A stand before it writes its *data* instead (`until="data"`) while B compacts. Is A, a compaction,
#    still refused? Why?
#
# Next: **08 · Crash lab**, where a writer does not come back at all.
