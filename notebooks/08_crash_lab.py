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
# **One idea: everything is written under names that nothing points to, until one last file makes it count.
# So a kill at any step leaves the table as before, or as after.** Here you kill real work at *every* step.

# %% tags=["parameters"]
seed = 7
solve = False
warehouse = None  # None: a temporary folder

# %%
from notebooks import course

course.begin("08 Crash lab", solve=solve)
course.check()

# %%
table = course.orders_table(course.lake(warehouse, seed=seed))
for number in range(3):
    table.write(course.orders(100, first=1 + 50 * number, seed=seed), user="loader", identifier=number)
print(f"{table.scan().count()} orders in 3 commits of the user loader, numbered 0, 1, 2")

# %% [markdown]
# ## What a commit does to the store
#
# The lab works on copies, and writes down each operation that changes something.

# %%
commit = course.CrashLab(
    table,
    lambda t: t.write(course.orders(20, first=1000, seed=seed), user="loader", identifier=3),
    name="a commit",
    seed=seed,
)

# %% jupyter={"source_hidden": true}
publish = next(place for place, (_, operation) in enumerate(commit.steps) if operation.kind == "publish")
crashes = commit.run()


def operations(lab):
    """The operations of a lab, to click one."""
    shown = [
        (
            f"{place + 1}",
            course.Cell(f"{o.verb} {o.kind}", f"{place + 1}"),
            course.Cell(o.name, f"{place + 1}"),
        )
        for place, (_, o) in enumerate(lab.steps)
    ]
    return course.Grid(("operation", "file"), tuple((name, cells) for name, *cells in shown))


picture = operations(commit)
first_seen = next(crash.at for crash in crashes if crash.visible)
visible = course.task(
    "visible or not",
    "The process is killed somewhere in between. **Click the last operation that must be done** so "
    "that a new "
    "process sees the 20 rows.",
    answer=course.Each((f"{first_seen}",)),
    picture=picture,
    hint="Which operation makes the files count: the one that names them, or a hint where to look first?",
    why="The snapshot file is the commit. LATEST is a hint: a reader also looks whether a next one is there.",
)
visible

# %% [markdown]
# ## Kill it at every step
#
# Each column is one life of the commit, which ends there. Small bars count the files that nothing names. ← →
# move.

# %% jupyter={"source_hidden": true} tags=["check:all_rows_or_none"]
visible.then(
    commit.view(at=publish),
    "For each life the lab opened the table anew, verified every invariant (`table.check()`), did the work "
    "again, and verified again.",
)

# %% jupyter={"source_hidden": true}
replay = course.task(
    "done again",
    "The commit was killed after `snapshot-4` was there. The job starts again and writes the same batch, as "
    'user "loader" with the identifier 3. How many snapshots are there then?',
    answer=lambda: len(crashes[publish + 1].snapshots),
    options=[3, 4, 5, 6],
    wrong=lambda count: (
        "snapshot 4 was there before the kill, and no retry takes it back."
        if count < 4
        else "that counts the batch twice: user and identifier are those of snapshot 4."
    ),
    hint="Three commits, and #4 which got through. Does the same user and identifier count again?",
    why="Still four: the newest commit of `loader` has the number 3, so the second try is a replay.",
)
replay

# %% [markdown]
# ## Orphans
#
# Files of a killed writer that nothing names are *orphans*: readers never see them, `remove_orphans` takes
# them away. It spares files younger than a day, which a running writer may yet name.

# %% jupyter={"source_hidden": true}
worst = max(crashes, key=lambda crash: crash.orphans)
most_orphans = course.task(
    "most orphans",
    "**Click the operation before which** a kill leaves **the most** orphans.",
    answer=course.Each((f"{worst.at + 1}",)),
    picture=picture,
    hint="Files pile up until something names them. Which is the last moment at which nothing does?",
    why="Just before the snapshot is put: all files are written, and none of them counts yet.",
)
most_orphans

# %% jupyter={"source_hidden": true} tags=["check:four_orphans"]
most_orphans.then(
    f"{worst.orphans} files, {worst.orphan_bytes:,} bytes",
)

# %% [markdown]
# ## A compaction that dies
#
# It takes files away in the manifest only, so a kill loses nothing.

# %% tags=["check:killed_compactions"]
compaction = course.CrashLab(table, lambda t: t.compact(full=True), name="a compaction", seed=seed)
compaction.view(at=1)

# %% [markdown]
# ## An expiry that dies
#
# Expiry really deletes files, so its order matters.

# %%
table.compact(full=True)
expiry = course.CrashLab(table, lambda t: t.expire_snapshots(keep=1), name="an expiry", seed=seed)
removed = [operation.name for _, operation in expiry.steps if operation.kind == "clean"]

# %% jupyter={"source_hidden": true}
said = {
    "snapshot": "the old snapshots",
    "data": "data files that only they name",
    "manifest": "manifests and lists that only they name",
}
gone_first = list(dict.fromkeys(kind for name in removed for kind in said if name.startswith(kind)))
order = course.task(
    "order of expiry",
    "In which order does an expiry remove files?",
    answer=course.Order({kind: said[kind] for kind in gone_first}),
    hint="Imagine a kill in between. What does a reader of an old snapshot meet, if its files went first?",
    why="Names go before what they name: a kill in between leaves orphans. The other order would leave a "
    "snapshot with holes in it.",
)
order

# %% jupyter={"source_hidden": true} tags=["check:snapshots_go_first"]
halfway = next(place for place, (_, o) in enumerate(expiry.steps) if o.name.endswith(".parquet"))
order.then(expiry.view(at=halfway), f"{len(expiry.run()) - 1} crashes of an expiry: no row was lost.")

# %% [markdown]
# ## All of it

# %% jupyter={"source_hidden": true} tags=["check:every_crash"]
labs = {"commit": commit, "compaction": compaction, "expiry": expiry}
total = {name: len(lab.run()) - 1 for name, lab in labs.items()}
safe = {name: sum(crash.safe for crash in lab.run()[:-1]) for name, lab in labs.items()}
print("  ".join(f"{name}: {safe[name]} of {total[name]} crashes survived" for name in labs))
course.progress()

# %% [markdown]
# ## What to remember
#
# - Files first, under fresh names; the snapshot last, with one *put if absent*. The put is the commit: before
#   it nothing is visible, after it everything is.
# - A user and an identifier make a retry harmless: what got through is recognised.
# - A kill costs space (orphans), never rows. So expiry removes names before files.
#
# ## Two questions to try
#
# 1. Give the commit no `user` and `identifier`, kill it after the put, and do the work again. How many
#    snapshots are there? Are the rows wrong?
# 2. Kill `t.delete(col("order_id") < 50)` at every step. What is its worst crash?
#
# Next: **09 · Changelogs**, what a reader that follows the table gets.
