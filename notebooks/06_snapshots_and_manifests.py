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
# # 6 · Snapshots and manifests
#
# A table is a folder of files that never change. Yet rows come and go, readers see one state and never a
# half of two, and yesterday can be read again. **One idea: a snapshot is a list of files; a commit writes a
# new list and changes nothing.** Here you make commits and follow each to the last file it left.
#
# Notebook 02 showed what data files and runs are. Nothing else is needed.

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
from pathlib import Path

import widgets

lake = course.lake(warehouse, seed=seed)
table = course.orders_table(lake)
rows = max(round(50_000 * scale), 60)  # in each write


def on_disk(of=table, below=""):
    """The files of a table, without the hint that only says where to begin to look."""
    found = (p for p in Path(of.location, below).rglob("*") if p.is_file())
    return {str(p.relative_to(of.location)) for p in found if p.name not in ("LATEST", "EARLIEST")}


assert on_disk() == {"schema/schema-0"}, "an empty table is one file: its schema"
print(f"{table.name}: {rows:,} rows a write")

# %% [markdown]
# ## A commit by hand
#
# The first write makes the first snapshot. Look at every file it leaves.

# %%
table.write(course.orders(rows, seed=seed))
for name in sorted(on_disk()):
    print(name)

# %% [markdown]
# From the bottom up:
#
# - The **data file** holds the rows, sorted by key.
# - The **manifest** says: *this commit added that file*. It keeps the smallest and largest key, the number of
#   rows, the level. A manifest can also say that a file is gone.
# - Two **manifest lists**. The *base* list names the manifests of everything before this commit; for the
#   first commit it is empty. The *delta* list names the manifests of this commit.
# - The **snapshot** is a small JSON file that names both lists. It is written last, in one step, under the
#   next free number. Before that moment no reader sees anything of the commit, after it all of it.

# %% jupyter={"source_hidden": true}
commit_files = course.task(
    "files of a commit",
    f"Now {rows:,} more rows are written, in one commit. How many **new files** does it leave in the folder?",
    answer=len(on_disk() - {"schema/schema-0"}),
    hint="Data file, manifest, manifest lists, snapshot: how many of each? And is any old file changed?",
    why="One data file, one manifest, two lists, one snapshot. The old files stay exactly as they were.",
)
commit_files

# %%
answer = None  # how many files?
commit_files.check(answer)

# %%
before = on_disk()
table.write(course.orders(rows, first=1 + rows // 2, seed=seed + 1))
new = sorted(on_disk() - before)
assert len(new) == 5
assert before <= on_disk(), "nothing was removed"
print("\n".join(new))

# %% [markdown]
# ## The same, as a tree
#
# `FileExplorer` opens a snapshot like a folder. Click a list to see its manifests, a manifest to see what it
# adds, a file to see its row groups. Only what you open is read. On top it compares the snapshot with the
# one before: `+` is new.

# %%
table.write(course.updates(rows // 3, among=rows, seed=seed))
explorer = widgets.FileExplorer(table, against=2)
explorer

# %%
lists = {row["kind"]: row for row in table.inspect.manifest_lists().to_pylist()}
delta = table.inspect.list_manifests(lists["delta"]["file_name"]).to_pylist()
assert [manifest["files_added"] for manifest in delta] == [1], "the delta is this commit alone"
assert table.inspect.diff(2, 3)["change"].to_pylist().count("added") == 1

# %% jupyter={"source_hidden": true}
base = course.task(
    "manifests in the base list",
    "This is snapshot 3, the third commit. How many **manifests** does its *base* list name?",
    answer=lists["base"]["entries"],
    hint="The base list names what was there before this commit. How many commits were before it?",
    why="One a commit so far. When there are many, a commit merges small manifests into a larger one.",
)
base

# %%
answer = None  # how many manifests?
base.check(answer)

# %% [markdown]
# So a snapshot's files are: everything its base says, then everything its delta says. Added files count,
# removed ones cancel them. Let us do that sum by hand, once.

# %%
live = set()
for kind in ("base", "delta"):
    for manifest in table.inspect.list_manifests(lists[kind]["file_name"])["file_name"].to_pylist():
        for entry in table.inspect.entries(manifest).to_pylist():
            (live.add if entry["change"] == "added" else live.discard)(entry["file_name"])
assert live == set(table.inspect.state()["file_name"].to_pylist())
print(f"{len(live)} live files, the same that the engine finds")

# %% [markdown]
# ## Predict the difference
#
# Three writes made three sorted runs. A full compaction merges them into one new file.

# %% jupyter={"source_hidden": true}
gone = course.task(
    "files taken away",
    "After the compaction, the explorer compares snapshot 4 with snapshot 3. How many files does it show as "
    "removed, with a `−`?",
    answer=table.inspect.levels().num_rows,
    hint="Which files does the new one replace? Those that are left out of the new snapshot are *removed*.",
    why="All three runs went into the new file. The new snapshot does not name them any more.",
)
gone

# %%
answer = None  # how many files?
gone.check(answer)

# %% jupyter={"source_hidden": true}
changed = course.task(
    "rows that changed",
    "And how many **rows of the table** differ between snapshots 3 and 4?",
    answer=0,
    hint="Files are how rows are stored. Compaction keeps the newest row of each key: is any of them lost?",
    why="Compaction is only about files. That is why it may run at any time, beside readers.",
)
changed

# %%
answer = None  # how many rows?
changed.check(answer)

# %%
before = on_disk(below="bucket-0")
rows_before = table.scan().to_arrow().sort_by("order_id")
table.compact(full=True)
difference = table.inspect.diff(3, 4)
counts = {change: difference["change"].to_pylist().count(change) for change in ("removed", "added", "kept")}
assert counts == {"removed": 3, "added": 1, "kept": 0}
assert table.scan().to_arrow().sort_by("order_id").equals(rows_before)
explorer = widgets.FileExplorer(table, snapshot=4, against=3)
explorer

# %% [markdown]
# ## Removed is not deleted
#
# Look at the disk: the three old files are still there. Snapshot 4 does not name them, but snapshot 3 does.

# %%
assert before < on_disk(below="bucket-0"), "compaction deleted nothing"
print(f"{len(on_disk(below='bucket-0'))} data files on disk, {table.inspect.state().num_rows} live")

# %% [markdown]
# That is **time travel**: reading an old snapshot is reading another list of files.

# %% jupyter={"source_hidden": true}
travel = course.task(
    "yesterday's rows",
    "The first write brought the first rows, later ones added and changed some. How many rows does "
    "`table.at(snapshot=1)` have?",
    answer=lambda: table.at(snapshot=1).scan().count(),
    hint="Only what the first commit wrote. Nothing that came later can be seen from there.",
    why="Exactly the first write. No copy was kept for that: the same file serves old and new snapshots.",
)
travel

# %%
answer = None  # how many rows?
travel.check(answer)

# %%
assert table.at(snapshot=1).scan().count() == rows
timeline = widgets.SnapshotTimeline(table)
then = widgets.FileExplorer(table)
timeline.link(then)
timeline

# %%
then

# %% [markdown]
# Click a commit above and the explorer shows that snapshot's files. Code can do the same:

# %%
timeline.snapshot = 2
assert then.snapshot == 2
assert then.data().num_rows == 2, "snapshot 2 has two files"

# %% [markdown]
# ## Expire, and see what goes
#
# Old snapshots cost space. *Expiry* removes them, oldest first, and then the files that no snapshot names any
# more. A **tag** is a name that keeps one snapshot: we tag snapshot 2 first.

# %% jupyter={"source_hidden": true}
table.tags.create("before-the-update", snapshot=2)
preview = table.expire_snapshots(keep=1, dry_run=True)
dropped = course.task(
    "data files that go",
    "There are four data files: three of the writes, one of the compaction. All snapshots but the newest "
    "expire; the tag keeps snapshot 2. How many **data files** are deleted?",
    answer={kind: files for kind, files, _ in preview.kinds}["data"],
    hint="The newest snapshot needs one file, the tag two. Is there one that neither needs?",
    why="Only the file of the third write: snapshot 3 alone named it, beside files that the tag keeps.",
)
dropped

# %%
answer = None  # how many files?
dropped.check(answer)

# %%
preview

# %%
there = on_disk(below="bucket-0")
table.expire_snapshots(keep=1)
left = on_disk(below="bucket-0")
assert len(there - left) == 1
assert table.inspect.snapshots()["snapshot_id"].to_pylist() == [4]
assert table.at(tag="before-the-update").scan().count() == rows + rows // 2
assert table.scan().to_arrow().sort_by("order_id").equals(rows_before), "the newest rows are untouched"
assert table.check() == [], "the table is sound"
course.progress()

# %% [markdown]
# ## What to remember
#
# - A **snapshot** names lists, lists name **manifests**, manifests name files. Files never change.
# - A commit is *one* new snapshot file. Who sees it sees all of the commit.
# - `base` is what was, `delta` is what changed. Their sum is the state; two sums make a difference.
# - Time travel is free until **expiry** takes the files that no snapshot, tag or branch names.
#
# ## Two questions to try
#
# 1. Delete the tag and expire again (`table.tags.delete("before-the-update")`). Which files go now?
# 2. Write one row. How many bytes does the commit leave beside the data file? What follows for tiny commits?
#
# Next: **07 · Two writers**, what happens when two commits want the same number.
