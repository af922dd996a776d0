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
# A table is a folder of files that never change. Yet rows come and go, readers never see half a change, and
# yesterday can be read again. **One idea: a snapshot is a list of files; a commit writes a new list and
# changes nothing.**

# %% tags=["parameters"]
seed = 7
scale = 0.01
solve = False
warehouse = None  # None: a temporary folder

# %%
from notebooks import course

course.begin("06 Snapshots and manifests", solve=solve)
course.check()

# %% tags=["check:an_empty_table"]
import shutil
from pathlib import Path

import tablestore as ts
import widgets

lake = course.lake(warehouse, seed=seed)
table = course.orders_table(lake)
rows = max(round(50_000 * scale), 60)  # in each write


def on_disk(of=table, below=""):
    """The files of a table, without the hint that only says where to begin to look."""
    found = (p for p in Path(of.location, below).rglob("*") if p.is_file())
    return {str(p.relative_to(of.location)) for p in found if p.name not in ("LATEST", "EARLIEST")}


print(f"{table.name}: {rows:,} rows a write")

# %% [markdown]
# ## A commit by hand
#
# The first write makes the first snapshot. These are all the files it leaves:

# %%
table.write(course.orders(rows, seed=seed))
for name in sorted(on_disk()):
    print(name)

# %% [markdown]
# - The **data file** holds the rows. The **manifest** says *this commit added that file*, with its smallest
#   and largest key, its rows, its level. A manifest can also say that a file is gone.
# - Two **manifest lists**: *base* names the manifests of everything before, *delta* those of this commit.
# - The **snapshot** is a small JSON file that names both lists.

# %% jupyter={"source_hidden": true}
lab = course.CrashLab(table, lambda t: t.write(course.orders(rows, seed=seed)), seed=seed)
words = {
    "data": ("data file", "the rows, sorted by key"),
    "manifest": ("manifest and lists", "which files came, which went"),
    "publish": ("snapshot", "names the lists"),
    "hint": ("LATEST", "where a reader begins to look"),
}
begun = list(dict.fromkeys(operation.kind for _, operation in lab.steps if operation.kind in words))
written = course.task(
    "the order of a commit",
    "In which order does the next commit write its files?",
    answer=course.Order({words[kind][0]: words[kind][1] for kind in begun}),
    hint="Each names the one before it. And what must not be seen before everything it names is there?",
    why="What names comes after what is named. Before the snapshot is put no reader sees anything of the "
    "commit, after it all of it; LATEST is a hint only.",
)
written

# %% tags=["check:nothing_was_removed"]
before = on_disk()
table.write(course.orders(rows, first=1 + rows // 2, seed=seed + 1))
new = sorted(on_disk() - before)

# %% jupyter={"source_hidden": true}
commit_files = course.task(
    "files of a commit",
    f"{rows:,} more rows were written, in one commit. How many **new files** did it leave in the folder?",
    answer=len(new),
    options=[1, 2, 4, 5, 10],
    wrong=lambda count: (
        "a commit writes more than rows: which file names the new one, and which file names that?"
        if count < len(new)
        else "no file of an earlier commit is written again."
    ),
    hint="Data file, manifest, manifest lists, snapshot: how many of each? And is any old file changed?",
    why="One data file, one manifest, two lists, one snapshot. The old files stay exactly as they were.",
)
commit_files

# %% jupyter={"source_hidden": true} tags=["check:five_files_a_commit"]
commit_files.then(
    "\n".join(new),
)

# %% [markdown]
# ## The same, as a tree
#
# `FileExplorer` opens a snapshot like a folder and compares it with the one before: `+` is new.

# %%
table.write(course.updates(rows // 3, among=rows, seed=seed))
explorer = widgets.FileExplorer(table, against=2)

# %% tags=["check:the_delta"]
lists = {row["kind"]: row for row in table.inspect.manifest_lists().to_pylist()}
delta = table.inspect.list_manifests(lists["delta"]["file_name"]).to_pylist()

# %% jupyter={"source_hidden": true}
base = course.task(
    "manifests in the base list",
    "This is snapshot 3, the third commit. How many **manifests** does its *base* list name?",
    answer=lists["base"]["entries"],
    options=[0, 1, 2, 3],
    wrong=lambda count: (
        "two commits were before this one, and each left a manifest."
        if count < 2
        else "what the third commit brought is in its *delta* list."
    ),
    hint="The base list names what was there before this commit. How many commits were before it?",
    why="One a commit so far. When there are many, a commit merges small manifests into a larger one.",
)
base

# %% jupyter={"source_hidden": true} tags=["check:base_then_delta"]
base.then(
    explorer,
    "Click a list to see its manifests, a manifest to see what it adds.",
)

# %% [markdown]
# ## Predict the difference
#
# Three writes made three sorted runs. A full compaction merges them into one new file.

# %%
runs_before = table.inspect.levels()
files_before = on_disk(below="bucket-0")
rows_before = table.scan().to_arrow().sort_by("order_id")
table.compact(full=True)
difference = table.inspect.diff(3, 4)

# %% jupyter={"source_hidden": true}
left_out = [row["file_name"] for row in difference.to_pylist() if row["change"] == "removed"]
gone = course.task(
    "files taken away",
    "This is the bucket before the compaction. **Click the files that snapshot 4 does not name any more.**",
    answer=course.files(runs_before, left_out),
    picture=course.RunPicture(runs_before, by="file"),
    hint="Which files does the new one replace? Those that are left out of the new snapshot are *removed*.",
    why="All three runs went into the new file. The new snapshot does not name them any more.",
)
gone

# %% jupyter={"source_hidden": true}
then, now = (table.at(snapshot=at).scan().to_arrow().sort_by("order_id").to_pylist() for at in (3, 4))
changed = course.task(
    "rows that changed",
    "And how many **rows of the table** differ between snapshots 3 and 4?",
    answer=sum(one != other for one, other in zip(then, now, strict=True)),
    options={0: "none", rows // 3: "the updated ones", len(now): "all of them"},
    wrong={
        0: "then no row would have got another value.",
        rows // 3: "the updates came with the third write, so snapshot 3 has them already.",
        len(now): "other files hold them now, but a row is its values.",
    },
    hint="Files are how rows are stored. Compaction keeps the newest row of each key: is any of them lost?",
    why="Compaction is only about files. That is why it may run at any time, beside readers.",
)
changed

# %% jupyter={"source_hidden": true} tags=["check:removed_is_not_deleted"]
gone.then(
    widgets.FileExplorer(table, snapshot=4, against=3),
    "`−` is removed, which is not deleted: the three old files are still on the disk, since snapshot 3 names "
    "them.",
)

# %% [markdown]
# **Time travel** is reading another list of files.

# %% jupyter={"source_hidden": true}
travel = course.task(
    "yesterday's rows",
    "The first write brought the first rows, later ones added and changed some. How many rows does "
    "`table.at(snapshot=1)` have?",
    answer=lambda: table.at(snapshot=1).scan().count(),
    options={
        0: "its file was merged away",
        rows: "those of the first write",
        rows + rows // 2: "those of the table now",
    },
    wrong={
        0: "a merged file stays on the disk as long as a snapshot names it.",
        rows: "then nothing that came later would count.",
        rows
        + rows // 2: "the later orders came with the second write, and snapshot 1 does not name its file.",
    },
    hint="Only what the first commit wrote. Nothing that came later can be seen from there.",
    why="Exactly the first write. No copy was kept for that: the same file serves old and new snapshots.",
)
travel

# %% jupyter={"source_hidden": true} tags=["check:snapshots_by_a_click"]
timeline = widgets.SnapshotTimeline(table)
explored = widgets.FileExplorer(table)
timeline.link(explored)
timeline.snapshot = 2  # the same as a click
travel.then(timeline, "Click a commit: the explorer shows its files.")

# %%
travel.then(explored)

# %% [markdown]
# ## Expire, and see what goes
#
# *Expiry* removes old snapshots, and then the files that no snapshot names. A **tag** keeps one snapshot: we
# tag snapshot 2 of a copy of the table, then all but the newest expire.

# %% jupyter={"source_hidden": true}
old = ts.open(str(shutil.copytree(table.location, course.warehouse() / "copy")))
old.tags.create("before-the-update", snapshot=2)
preview = old.expire_snapshots(keep=1, dry_run=True)
named = {
    "write 1": "named by snapshots 1, 2, 3",
    "write 2": "named by snapshots 2, 3",
    "write 3": "named by snapshot 3",
    "compaction": "named by snapshot 4",
}
made = runs_before.sort_by("snapshot_id")["file_name"].to_pylist()
made += table.inspect.levels()["file_name"].to_pylist()
old.expire_snapshots(keep=1)
left = {Path(name).name for name in on_disk(old, "bucket-0")}
expired = [name for name, file in zip(named, made, strict=True) if file not in left]
dropped = course.task(
    "data files that go",
    "All snapshots but #4 expire; the tag keeps #2. **Which data files are deleted?**",
    answer=course.Members(tuple((name,) for name in expired), noun="file"),
    options=named,
    wrong={
        "write 1": "the tag keeps snapshot 2, and that one names it.",
        "write 2": "the tag keeps snapshot 2, and that one names it.",
        "write 3": "it is named by a snapshot that stays.",
        "compaction": "the newest snapshot names it.",
    },
    hint="The newest snapshot needs one file, the tag two. Is there one that neither needs?",
    why="Only the file of the third write: snapshot 3 alone named it, beside files that the tag keeps.",
)
dropped

# %% jupyter={"source_hidden": true} tags=["check:files_that_expired"]
dropped.then(
    preview.text,
    "What a dry run had said:",
)

# %%
course.progress()

# %% [markdown]
# ## What to remember
#
# - A **snapshot** names lists, lists name **manifests**, manifests name files. Files never change.
# - A commit is *one* new snapshot file. Who sees it sees all of the commit.
# - `base` is what was, `delta` is what changed.
# - Time travel is free until **expiry** takes the files that no snapshot, tag or branch names.
#
# ## Two questions to try
#
# 1. Delete the tag and expire again (`table.tags.delete("before-the-update")`). Which files go now?
# 2. Write one row. How many bytes does the commit leave beside the data file? What follows for tiny commits?
#
# Next: **07 · Two writers**, what happens when two commits want the same number.
