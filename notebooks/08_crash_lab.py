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
# # 8 · Crash lab
#
# A machine stops in the middle of a commit. Half a file is on the disk, the snapshot may be there or not,
# and the program that knew is gone. **One idea: everything is written under names that nothing points to,
# until one last file makes it count. So a kill at any step leaves the table as before, or as after.**
#
# Here you kill real work at *every* step, open what is left, and look.

# %% tags=["parameters"]
seed = 7
solve = False
warehouse = None  # None: a temporary folder

# %%
from notebooks import course

course.begin(solve=solve)
course.check()

# %%
import widgets

table = course.orders_table(course.lake(warehouse, seed=seed))
for number in range(3):
    table.write(course.orders(100, first=1 + 50 * number, seed=seed), user="loader", identifier=number)
print(f"{table.scan().count()} orders in 3 commits of the user loader, numbered 0, 1, 2")

# %% [markdown]
# ## What a commit does to the store
#
# The lab runs the work on a copy of the table and writes down each operation that changes something: files
# begun, written, published, removed. Reads change nothing, so a kill before a read leaves the same as a
# kill before the next change.

# %%
commit = course.CrashLab(
    table,
    lambda t: t.write(course.orders(20, first=1000, seed=seed), user="loader", identifier=3),
    name="a commit",
    seed=seed,
)
for place, (_, operation) in enumerate(commit.steps):
    print(f"{place + 1}. {operation.verb:8} {operation.kind:9} {operation.name}")

# %% jupyter={"source_hidden": true}
publish = next(place for place, (_, operation) in enumerate(commit.steps) if operation.kind == "publish")
visible = course.task(
    "visible or not",
    f"The process is killed **after** operation {publish + 1}, the put of `snapshot-4`, and before operation "
    f"{publish + 2}. Does a new process see the 20 rows?",
    answer=lambda: commit.kill_at(publish + 1).visible,
    hint="Which operation makes the files count: the one that names them, or a hint where to look first?",
    why="The snapshot file is the commit. LATEST is a hint: a reader also looks whether a next one is there.",
)
visible

# %%
answer = None  # "yes" or "no"?
visible.check(answer)

# %% [markdown]
# ## Kill it at every step
#
# Each column is one life of the commit, which ends there. The bar says what a new process finds, the small
# bars count the files that nothing names. Move with ← and →: what is crossed out did not happen any more.

# %%
commit.view(at=publish)

# %%
crashes = commit.run()
assert all(crash.safe for crash in crashes), "sound, done again exactly once, cleaned up: at every step"
assert [crash.visible for crash in crashes] == [False] * (publish + 1) + [True] * (len(crashes) - publish - 1)
assert {crash.rows for crash in crashes} == {200, 220}, "all 20 rows or none"
print(f"{len(crashes) - 1} crashes: nothing lost, nothing half done")

# %% [markdown]
# For each of them the lab opened the table anew, verified every invariant (`table.check()`), did the work
# again, and verified again. It used the same user and number, so a commit that had got through was
# recognised and added nothing.

# %% jupyter={"source_hidden": true}
replay = course.task(
    "done again",
    "The commit was killed after `snapshot-4` was there. The job starts again and writes the same batch, as "
    'user "loader" with the identifier 3. How many snapshots are there then?',
    answer=lambda: len(crashes[publish + 1].snapshots),
    hint=lambda submitted: (
        "That would be the batch twice. Who wrote #4, and under which number?"
        if str(submitted) == "5"
        else "Three commits, and #4 which got through. Does the same user and identifier count again?"
    ),
    why="Still four: the newest commit of `loader` has the number 3, so the second try is a replay.",
)
replay

# %%
answer = None  # how many snapshots?
replay.check(answer)

# %% [markdown]
# ## Orphans
#
# What a killed writer leaves behind is named by nothing: *orphans*. Readers never see them, but they take
# space until somebody looks for them. `remove_orphans` does. By default it spares files younger than a day,
# which a running writer may yet name.

# %% jupyter={"source_hidden": true}
most_orphans = course.task(
    "most orphans",
    "Before which operation must the process be killed to leave **the most** orphans? Give its number in "
    "the list above.",
    answer=1 + max(range(len(crashes)), key=lambda place: crashes[place].orphans),
    hint="Files pile up until something names them. Which is the last moment at which nothing does?",
    why="Just before the snapshot is put: all files are written, and none of them counts yet.",
)
most_orphans

# %%
answer = None  # the number of an operation
most_orphans.check(answer)

# %%
worst = max(crashes, key=lambda crash: crash.orphans)
assert worst.at == publish
assert worst.orphans == 4, "a data file, a manifest, two manifest lists"
print(f"{worst.orphans} files, {worst.orphan_bytes:,} bytes")

# %% [markdown]
# ## A compaction that dies
#
# A compaction reads many files, writes one, and takes the others away. Taking away is done in the manifest
# only: the old files stay on the disk until expiry. So a kill can lose nothing here either.

# %%
compaction = course.CrashLab(table, lambda t: t.compact(full=True), name="a compaction", seed=seed)
compaction.view(at=1)

# %%
assert all(crash.safe for crash in compaction.run())
assert {crash.rows for crash in compaction.run()} == {200}, "compaction changes no row, killed or not"

# %% [markdown]
# ## An expiry that dies
#
# Expiry is the one that really deletes files. Its order matters.

# %% jupyter={"source_hidden": true}
order = course.task(
    "order of expiry",
    "Expiry removes old snapshots and the data files that only they name. Which must go first?",
    answer="snapshots",
    options={
        "files": "the data files, then the snapshots that name them",
        "snapshots": "the snapshots, then the files that nothing names any more",
    },
    hint="Imagine a kill in between. What does a reader of the old snapshot meet in each case?",
    why="A kill in between then leaves orphans. The other order would leave a snapshot with holes in it.",
)
order

# %%
answer = None  # "files" or "snapshots"?
order.check(answer)

# %%
table.compact(full=True)
expiry = course.CrashLab(table, lambda t: t.expire_snapshots(keep=1), name="an expiry", seed=seed)
halfway = next(place for place, (_, o) in enumerate(expiry.steps) if o.name.endswith(".parquet"))
expiry.view(at=halfway)

# %%
removed = [operation.name for _, operation in expiry.steps if operation.kind == "clean"]
firsts = [name.partition("-")[0] for name in removed]
assert firsts.index("data") > max(place for place, name in enumerate(firsts) if name == "snapshot")
assert all(crash.safe for crash in expiry.run())
print(f"{len(expiry.run()) - 1} crashes of an expiry: {removed[0]} went first, no row was lost")

# %% [markdown]
# ## All of it
#
# Every crash of this notebook, in one table.

# %%
labs = {"commit": commit, "compaction": compaction, "expiry": expiry}
total = {name: len(lab.run()) - 1 for name, lab in labs.items()}
safe = {name: sum(crash.safe for crash in lab.run()[:-1]) for name, lab in labs.items()}
assert total == safe
assert table.check() == []
print("  ".join(f"{name}: {safe[name]} of {total[name]} crashes survived" for name in labs))
course.progress()

# %% [markdown]
# The table itself was never touched: the lab worked on copies.

# %%
timeline = widgets.SnapshotTimeline(table)
timeline

# %% [markdown]
# ## What to remember
#
# - Files first, under fresh names; the snapshot last, with one *put if absent*. The put is the commit.
# - Before it nothing is visible, after it everything is. There is no third state.
# - A user and an identifier make a retry harmless: what got through is recognised.
# - A kill costs space (orphans), never rows. Expiry removes names before files, for the same reason.
#
# ## Two questions to try
#
# 1. Give the commit no `user` and `identifier`, and kill it after the put. How many snapshots are there
#    when the work is done again? Are the rows wrong?
# 2. Kill `t.delete(col("order_id") < 50)` at every step. What is its worst crash?
#
# Next: **09 · Changelogs**, what a reader that follows the table gets.
