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
# # Start here
#
# In five minutes you grow a tree. It is an **LSM tree**: the shape that tables of a data lake take when
# rows keep coming in. You will see why it grows wild, who prunes it, and what pruning costs. Then you may
# hold the shears yourself.
#
# Run the cells one after another with Shift+Enter. Nothing is written to your disk: the tree is simulated,
# by the very rules that this engine, and Apache Paimon, use on real tables.

# %% tags=["parameters"]
seed = 7
solve = False

# %%
from notebooks import course

course.begin(solve=solve)
course.check()

# %% [markdown]
# ## A seed
#
# Imagine a shop. Every minute some 20,000 orders are placed, paid or sent. They arrive in any order, but a
# reader wants to find one by its number, fast. So each minute's rows are sorted by their key and written to
# one file. Files are never changed afterwards: object stores do not allow it, and nobody who reads is ever
# disturbed.
#
# One sorted file is one **run**. Fresh ones lie at **level 0**.

# %%
import widgets
from tablestore.insight.simulator import Simulator, Workload

shop = Workload("uniform", rows=20_000, keys=400_000)
tree = Simulator(shop, {"num-sorted-run.compaction-trigger": 5}, seed=seed)
tree.flush()  # the first minute
levels = widgets.LsmLevels(tree)
assert levels.data()["level"].to_pylist() == [0]
levels

# %% [markdown]
# There it is, in the top lane. The box reaches from the smallest key in the file to the largest; here it
# spans nearly all keys. The lanes below are older levels, empty as yet. Point at the box for its numbers.
#
# ## It grows
#
# Three more minutes.

# %%
for _minute in range(3):
    tree.flush()
runs = tree.inspect.levels().num_rows
assert runs == 4, "every minute left a run of its own"
widgets.LsmLevels(tree)

# %% [markdown]
# Four runs, the newest on top. An order that was paid in minute three may lie in run #3, its older version
# in run #1. Nobody has tidied up.
#
# Now the first question. Put your answer into `answer` and run the cell. Leave it `None` and nothing bad
# happens. The cell that poses a question is folded (`…`), since it also knows the answer.

# %% jupyter={"source_hidden": true}
reader = course.task(
    "a reader arrives",
    "Somebody asks for **one** order. In how many runs may its newest version lie? Each must be asked.",
    answer=runs,
    hint="Draw a vertical line through the picture, at any key. How many boxes does it cross?",
    why="Any run may hold it, so all of them are asked. That is the price of writing fast: reads get slower.",
)
reader

# %%
answer = None  # how many runs?
reader.check(answer)

# %% [markdown]
# ## Somebody has to prune
#
# Merging runs is called **compaction**: read several sorted runs side by side, keep the newest row of each
# key, write one run. This tree allows five runs. Here comes the fifth.

# %% jupyter={"source_hidden": true}
tree.flush()
plan = tree.compact(dry_run=True)  # says what would happen; nothing is done
pruning = course.task(
    "the fifth run",
    "There are five runs now, of about equal size. What does the engine do?",
    options={
        "wait": "nothing: the runs are small",
        "two": "it merges the two newest",
        "all": "it merges all five into one",
    },
    answer={2: "two", 5: "all"}[len(plan.picks[0].forecast.read)],
    hint="Four fresh runs lie on one old run of the same size: four times what the oldest needs. That is a "
    "lot of possibly outdated rows. Which choice gets rid of most of them?",
    why=f"In the engine's own words: {plan.picks[0].explain().splitlines()[0]}.",
)
pruning

# %%
answer = None  # "wait", "two" or "all"?
pruning.check(answer)

# %%
stored = sum(tree.inspect.levels()["rows"].to_pylist())
tree.compact()
after = tree.inspect.levels().to_pylist()
assert [file["level"] for file in after] == [5], "one run is left, at the oldest level"
print(f"{stored:,} rows in five runs became {after[0]['rows']:,} in one: the others were old versions.")
widgets.LsmLevels(tree)

# %% [markdown]
# The new run sits at the oldest level, where the oldest rows rest. A reader asks one run instead of five.
#
# ## A whole hour
#
# Let us leave the tree to itself for an hour, and look at what happened. The **timeline** shows every
# commit: ● rows came in, ◆ a compaction. The two pictures are linked. Click a commit, drag the
# cursor, use ← and → or press Space to play it: the levels show the tree as it was then. That is time
# travel, and it works on real tables too.

# %%
tree.advance(60)
commits = tree.inspect.commits()
timeline, levels = widgets.SnapshotTimeline(tree), widgets.LsmLevels(tree)
timeline.link(levels)
timeline

# %%
levels


# %% jupyter={"source_hidden": true}
def most_runs(tree: Simulator) -> int:
    """The most runs there ever were."""
    inspect = tree.inspect
    states = (inspect.levels(snapshot=n).to_pylist() for n in inspect.commits()["snapshot_id"].to_pylist())
    return max(len({(file["level"], file["run"]) for file in state}) for state in states)


kinds, max_runs = commits["commit_kind"].to_pylist(), most_runs(tree)
wild = course.task(
    "an hour later",
    "**60** runs were written in that hour. How many did a reader have to ask at the worst moment?",
    options={"sixty": "about sixty", "few": "a handful", "one": "never more than one"},
    answer="few" if 2 <= max_runs <= 8 else "sixty",
    hint="Play the timeline and watch the lanes, and the strip below them. When does the engine act?",
    why=f"At most {max_runs}: compaction begins at five runs, so reads stay fast however long it grows.",
)
wild

# %%
answer = None  # "sixty", "few" or "one"?
wild.check(answer)

# %% [markdown]
# ## What pruning costs
#
# Nothing is free. To merge a run, all its rows are written again. How often a row is written until it rests
# is the **write amplification**.

# %%
table = commits.to_pandas()
flushed = table.loc[table["commit_kind"] == "APPEND", "bytes_added"].sum()
rewritten = table.loc[table["commit_kind"] == "COMPACT", "bytes_added"].sum()
amplification = (flushed + rewritten) / flushed
assert amplification > 1
assert rewritten > 0, "to be asked less, rows are written more"
compactions = kinds.count("COMPACT")
sizes = f"{rewritten / 2**20:.0f} MiB for {flushed / 2**20:.0f} MiB that came in"
print(f"{compactions} compactions wrote {sizes}:")
print(f"each row is written {amplification:.1f} times. The tree holds {max_runs} runs at most.")

# %% [markdown]
# Fewer runs, faster reads, more writing. More runs, cheaper writes, slower reads. **There is no best
# setting, only one that suits you.** That trade-off is what this course is about.
#
# ## Your turn
#
# This is the **workbench**: all of it in one place. On top the timeline. Below it the levels, and beside them
# the engine's decision, live: which rule it tries, with the sum behind it, and what would be merged. At the
# bottom what it costs. All of it is linked.
#
# *Flush* lets a minute pass. *Step* makes one compaction, *Run until quiet* all that are due. Set the
# trigger to 10, flush a few times, and see the lanes fill up.

# %%
desk = widgets.Workbench(tree)
desk

# %% jupyter={"source_hidden": true}
own = Simulator(shop, {"num-sorted-run.compaction-trigger": 10}, seed=seed).advance(60)
written = own.inspect.commits().to_pandas().groupby("commit_kind")["bytes_added"].sum()
lazy = written.sum() / written["APPEND"]
tradeoff = course.task(
    "a lazier gardener",
    "The same hour with the trigger at **10** instead of 5. Is *more* or *less* written in all?",
    options={"more": "more", "less": "less", "same": "the same"},
    answer="less" if lazy < amplification else "more" if lazy > amplification else "same",
    hint="Compaction now waits for ten runs. Does it happen more often, or less?",
    why=f"{lazy:.1f} times instead of {amplification:.1f}. But reads ask up to {most_runs(own)} runs now.",
)
tradeoff

# %%
answer = None  # "more", "less" or "same"?
tradeoff.check(answer)

# %%
course.progress()

# %% [markdown]
# ## What to remember
#
# - Rows come in as **sorted runs**, files that never change. New ones lie at level 0.
# - Every run makes reads slower. **Compaction** merges runs and drops old versions.
# - Compaction writes rows again. Faster reads cost more writing; you choose by a few options.
# - Every commit is a **snapshot** that can still be read: that is time travel.
#
# ## Where to go now
#
# | notebook | one idea |
# |---|---|
# | [01 TPC-H change capture](01_tpch_cdc_ingest.ipynb) | a real table, loaded by Spark (needs Java) |
# | [02 Rows, files, runs](02_rows_files_runs.ipynb) | every commit adds a run, every run costs a read |
# | [03 Merging](03_merging.ipynb) | how runs become one, row by row |
# | [04 Universal compaction](04_universal_compaction.ipynb) | the rules you have just seen, one by one |
# | [05 Leveled, and the trade-off](05_leveled_and_the_trade_off.ipynb) | another gardener, other costs |
# | [06 Snapshots and manifests](06_snapshots_and_manifests.ipynb) | how a table knows its files |
# | [07 Two writers](07_two_writers.ipynb) | who wins when two commit at once |
# | [08 Crash lab](08_crash_lab.ipynb) | pull the plug at any step, lose nothing |
# | [09 Changelogs](09_changelogs.ipynb) | what changed, row by row, for those who follow |
# | [10 Merge engines](10_merge_engines.ipynb) | newest wins, or sums, or parts |
# | [11 Pruning](11_pruning_why_is_my_query_slow.ipynb) | why is my query slow? |
# | [12 What if](12_what_if_on_your_own_table.ipynb) | your table under other options |
# | [13 A foreign table](13_reading_a_foreign_paimon_table.ipynb) | open what another engine wrote |
# | [14 SQL](14_sql.ipynb) | the same in statements, and queries that go on |
# | [15 A dashboard](15_lookup_join_dashboard.ipynb) | a stream of orders joined with tables that change |
# | [16 Change capture](16_cdc_cockpit.ipynb) | a database goes into the lake while others write into it |
# | [17 Log and lake](17_log_and_lake.ipynb) | rows are seen in milliseconds, and exactly once |
# | [18 Tiering](18_tiering.ipynb) | a streaming cluster is copied into the lake, and may be killed |
# | [19 Keep the shop fast](19_keep_the_shop_fast.ipynb) | a game: you compact while orders stream in |
#
# **You have a Paimon table already?** In a shell:
#
# ```
# ./workbench open /path/to/your/table
# ```
#
# opens these pictures on it, and only reads it.
#
# ## Two questions to try
#
# 1. Make the shop busier: `Workload("zipf", rows=20_000, keys=400_000)` sells a few articles very often. Does
#    compaction have more old versions to drop, or fewer?
# 2. What happens with a trigger of 2? Guess the write amplification before you look.
#
# Next: **02 · Rows, files, runs**, or straight to the real thing in **01**.
