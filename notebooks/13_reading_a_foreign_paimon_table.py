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
# # 13 · Reading a foreign Paimon table
#
# **One idea: a table is its files. Whoever follows the format, Apache Paimon's, may read it, write to it,
# compact it, and hand it on.** Two tables wait in the checkout, by Java Paimon 2.0.0 and by pypaimon 2.1.0.
# We work on copies.

# %% tags=["parameters"]
seed = 7
solve = False
warehouse = None  # None: a temporary folder
path = None  # a table of your own, such as "/data/lake/shop.db/orders"; only looked at, never written

# %%
from notebooks import course

course.begin("13 A foreign table", solve=solve)
course.check()

# %%
import pyarrow.parquet as pq

import tablestore as ts
import widgets
from notebooks.course import foreign

here = course.warehouse(warehouse)
java = foreign.foreign("java", here)
table = java.table
table

# %% [markdown]
# ## Whose table is it?
#
# `ts.open(path)` needs a directory, no catalog. The schema file says what the table is.

# %%
print((java.folder / "schema" / "schema-0").read_text())

# %% [markdown]
# Nothing in there is ours (`tablestore.…`). Commits name their user, Parquet files their maker.

# %% tags=["check:java_wrote_it"]
commits = table.inspect.commits().to_pylist()


def makers(table):
    """Who wrote the live data files."""
    files = [
        f"{table.location}/bucket-{f['bucket']}/{f['file_name']}" for f in table.inspect.levels().to_pylist()
    ]
    return sorted({pq.ParquetFile(file).metadata.created_by.split(" version")[0] for file in files})


print(f"{len(commits)} snapshots by the user java, files by {makers(table)[0]}")

# %% [markdown]
# ## The same rows?
#
# With the table came the rows that Java reads from it.

# %% tags=["check:what_java_reads"]
ours = table.scan().to_arrow().sort_by("k")
print(f"{ours.num_rows} rows, {ours.num_columns} columns: equal to what Java reads")

# %% [markdown]
# pypaimon's too. Its `rowkind.field` says which column holds the operation.

# %% tags=["check:what_pypaimon_reads"]
python = foreign.foreign("python", here)
python.table.scan().to_pandas()

# %% [markdown]
# ## See it
#
# Widgets draw a foreign table as one of ours.

# %% jupyter={"source_hidden": true}
levels = table.inspect.levels(bucket=0).to_pylist()


def fmt_files(files, level):
    """`2 files`."""
    count = sum(file["level"] == level for file in files)
    return f"{count} file{'s' if count > 1 else ''}"


runs = course.task(
    "sorted runs",
    "Bucket 0 of Java's table. **How many sorted runs** does it "
    "hold? A reader of one key may have to ask them all: "
    + ", ".join(f"level {n}: {fmt_files(levels, n)}" for n in sorted({f["level"] for f in levels}))
    + ".",
    answer=len({(f["level"], f["run"]) for f in levels}),
    options=range(1, len(levels) + 3),
    wrong=lambda count: (
        "each level that has files holds one run at least."
        if count < len({f["level"] for f in levels})
        else "the files of one level, from level 1 on, are one run together."
    ),
    hint="Each file of level 0 is a run of its own; from level 1 on a whole level is one.",
    why="One run at level 0, one at level 3, one at level 4. The table has five levels: `num-levels` is 5.",
)
runs

# %%
runs.then(widgets.LsmLevels(table, bucket=0))

# %% [markdown]
# ## What is known, and what is not
#
# Manifests say which files went into Java's compactions and came out, not *why*.

# %% tags=["check:no_rules_of_theirs"]
compactions = table.inspect.compactions().to_pylist()
print(compactions[-1]["explanation"])

# %% [markdown]
# What is next can be said: the rules are the same, and need nothing but the files.

# %% jupyter={"source_hidden": true}
dry = table.compact(dry_run=True, bucket=0)
counting = next(trial for trial in dry.picks[0].decision.reason.trials if trial.rule == "file number")
fires = course.task(
    "the next compaction",
    "`num-sorted-run.compaction-trigger` is "
    f"{table.options['num-sorted-run.compaction-trigger']}. Does the rule on the number of runs fire now in "
    "bucket 0?",
    answer=counting.state == "fired",
    wrong={
        "yes": "the rule wants more runs than the trigger, and equal is not more.",
        "no": "there are more runs than the trigger.",
    },
    hint="The rule fires when runs > trigger. How many are there?",
    why="runs {runs} ≤ trigger {trigger}: nothing to do yet.".format(**dict(counting.numbers)),
)
fires

# %%
fires.then(dry.text)

# %% [markdown]
# One line opens everything at once.

# %%
widgets.Workbench(table, bucket=0)

# %% [markdown]
# ## Write to it
#
# A commit also expires old snapshots: by Paimon's defaults at least 10 stay, older ones go after an hour. A
# dry run says which.

# %% tags=["check:no_snapshot_options"]
print(table.expire_snapshots(dry_run=True).text)

# %% [markdown]
# We keep them: `with_options` changes an option for this use only.

# %% tags=["check:nothing_is_stored"]
mine = table.with_options({"snapshot.num-retained.min": 1000, "write-only": True})

# %%
changed = table.scan().head(20).to_arrow().set_column(1, "a", [[1] * 20]).cast(table.schema)
committed = mine.write(changed)

# %% jupyter={"source_hidden": true}
newest = commits[-1]["snapshot_id"]
next_id = course.task(
    "the next snapshot",
    f"Java's newest snapshot is #{newest}. We wrote a few rows. Which id did they get?",
    answer=committed.snapshot,
    options=[1, newest, newest + 1, newest + 2],
    wrong={
        1: "the table has been written before: that name is taken.",
        newest: "that is the name of Java's newest snapshot, and no snapshot is written twice.",
        newest + 1: "no name is left free for another engine.",
        newest + 2: "no name is left free between two snapshots.",
    },
    hint="Snapshots are numbered by the table, whoever writes them.",
    why="The next free name. Two engines that write at once race for it, exactly as in notebook 07.",
)
next_id

# %% jupyter={"source_hidden": true} tags=["check:the_next_snapshot"]
after = table.scan().to_arrow().sort_by("k")
next_id.then(f"files of two engines in one table: {' '.join(makers(table))}")

# %% [markdown]
# Now runs 4 > trigger 3, and a compaction of ours merges Java's runs with ours.

# %% tags=["check:our_compaction"]
compacted = mine.compact()
known = [c for c in table.inspect.compactions().to_pylist() if c["rule"] is not None]
print(compacted.text)
print("because:", known[-1]["reason"])

# %%
widgets.LsmLevels(table, bucket=0)

# %% [markdown]
# ## Hand it back
#
# If pypaimon is installed, here or in the environment that the tests make, it reads the table now.

# %% jupyter={"source_hidden": true} tags=["check:pypaimon_reads_on"]
theirs = foreign.read_by_pypaimon(table)
if theirs is None:
    print("pypaimon is not here; `./workbench test tests/peers` makes an environment for it")
else:
    print(f"pypaimon reads {theirs.num_rows} rows")

# %% [markdown]
# ## What is refused, by name
#
# What is not carried out here is refused before a byte is read or written. Some copies ask for it.

# %% jupyter={"source_hidden": true} tags=["check:refusals_name_the_option"]
asked = {
    "chain-table.enabled": "true",
    "metadata.iceberg.storage": "table-location",
    "data-evolution.enabled": "true",
}


def refusal_of(act, copy):
    """The refusal of `act`, or `fine`."""
    try:
        act(copy)
    except ts.Unsupported as refusal:
        return str(refusal)
    return "fine"


found = {}
for option, value in asked.items():
    copy = foreign.with_options(java.folder, here, {option: value})
    reads, writes = refusal_of(lambda t: t.scan().count(), copy), refusal_of(lambda t: t.write(changed), copy)
    found[option] = (reads, writes)

# %% jupyter={"source_hidden": true}
reads_only = "reads" if found["metadata.iceberg.storage"][0] == "fine" else "nothing"
refused = course.task(
    "refused or read",
    "A table has `metadata.iceberg.storage` set: each commit must also write metadata for Iceberg. What "
    "does this engine do with it?",
    answer="both" if found["metadata.iceberg.storage"] == ("fine", "fine") else reads_only,
    options={
        "both": "reads and writes it, and leaves the Iceberg metadata out",
        "reads": "reads it, and refuses to write, naming the option",
        "nothing": "refuses to open it",
    },
    wrong={
        "both": "readers of the Iceberg metadata would miss what this engine wrote, and nobody would say so.",
        "reads": "then a write would have to leave something behind.",
        "nothing": "the rows are in files that this engine knows; reading needs no Iceberg metadata.",
    },
    hint="Would a reader miss anything? And what would readers of the Iceberg metadata see after our write?",
    why="Reading needs no Iceberg metadata. Writing without it would leave its readers behind, in silence.",
)
refused

# %% jupyter={"source_hidden": true}
refused.then(
    "\n".join(f"{name}\n  read   {reads}\n  write  {writes}" for name, (reads, writes) in found.items())
)

# %% [markdown]
# ## Your own table
#
# Set `path` in the first cell and run all, or `workbench open PATH` in a shell.

# %%
yours = ts.open(path) if path else table
print(f"{yours.name}: {yours.inspect.snapshots().num_rows} snapshots, {yours.inspect.files().num_rows} files")
widgets.SnapshotTimeline(yours)

# %% jupyter={"source_hidden": true} tags=["check:the_options_of_java"]
course.progress()

# %% [markdown]
# ## What to remember
#
# - A table is its files: open it by its path, whoever wrote it.
# - What happened is in the manifests; why, of our own compactions only.
# - Any engine may write next: a race for a snapshot's number has one winner.
# - Expiry goes by the table's options. What is not carried out is refused by name.
#
# ## Two questions to try
#
# 1. Open `course.foreign.foreign("python", here)` in a `Workbench` and compact it fully. Does pypaimon
#    still read it?
# 2. `table.what_if({"num-sorted-run.compaction-trigger": 8})` replays Java's history: what would have been
#    different?
#
# Next: **14 · Everything in SQL**.
