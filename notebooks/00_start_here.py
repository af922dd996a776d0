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
# In a few minutes you grow an **LSM tree**: the shape of a lake table when rows keep coming in. You see why
# it grows wild, who prunes it, and what pruning costs.
#
# Start all cells. Each task asks for a guess: click it, then *Ask the engine*. What would give it away waits
# until then. The tree is simulated by the rules that this engine, and Apache Paimon, use on real tables.

# %% tags=["parameters"]
seed = 7
solve = False

# %%
from notebooks import course

course.begin("00 Start here", solve=solve)
course.check()

# %% [markdown]
# ## A seed
#
# Every minute brings 20,000 changes: orders of a shop are placed, paid or sent. Six of ten change a recent
# order. A minute's changes are sorted by key, the newest of each order is kept, and one file is written that
# never changes: a **run**. Of the first minute's changes 8,000 orders remain. Fresh runs lie at **level 0**.

# %% tags=["check:the_first_minute"]
import widgets
from tablestore.insight.simulator import Simulator, Workload

shop = Workload("time-series", rows=20_000, updates=0.6, lag=16_000)  # 6 of 10 rows change a recent order
tree = Simulator(shop, {"num-sorted-run.compaction-trigger": 5}, seed=seed)
tree.flush()  # the first minute
levels = widgets.LsmLevels(tree)
levels

# %% [markdown]
# The box in the top lane reaches from the smallest key of the file to the largest. The lanes below are older
# levels, empty as yet.
#
# ## It grows
#
# Three more minutes.

# %%
for _minute in range(3):
    tree.flush()
runs = tree.inspect.levels()

# %% jupyter={"source_hidden": true}
key = 20_000
ranges = [
    [int(end.strip("[]")) for end in ends.values()]
    for ends in runs.select(["min_key", "max_key"]).to_pylist()
]
reader = course.task(
    "a reader arrives",
    f"Somebody asks for **one** order, number {key:,}. **Click every run that may hold its newest version.**",
    answer=course.runs(runs.filter([low <= key <= high for low, high in ranges])),
    picture=course.RunPicture(runs, key=key),
    hint="Follow the line down. Which boxes does it cross?",
    why="Each of them may hold it, so each is asked. That is the price of fast writes: reads get slower.",
)
reader

# %% [markdown]
# ## Somebody has to prune
#
# **Compaction** reads several runs side by side, keeps the newest row of each key, and writes one run. With
# fewer than five runs this tree lets things be: five is its **trigger**. Here comes the fifth.

# %%
tree.flush()
plan = tree.compact(dry_run=True)  # says what would happen; nothing is done
before = tree.inspect.levels()

# %% jupyter={"source_hidden": true}
taken = len(plan.picks[0].forecast.read)
*newer, oldest = before["bytes"].to_pylist()
percent = 100 * sum(newer) // oldest
pruning = course.task(
    "the fifth run",
    "There are five runs now. What does the engine do?",
    options={
        "wait": "nothing: the runs are small",
        "two": "it merges the two newest",
        "all": "it merges all five into one",
    },
    answer={0: "wait", 2: "two", 5: "all"}[taken],
    wrong={
        "wait": "the newest four may be small, but they outweigh the oldest one, and five runs are due.",
        "two": "that would leave four runs, and the oldest one with most of its rows outdated.",
        "all": "that would write all rows again, for few outdated ones.",
    },
    hint="Four fresh runs lie on one old, smaller run. Which choice gets rid of most outdated rows?",
    why=f"The four newer runs have {percent} % of the bytes of the oldest one, whose rows they may replace. "
    "Above 200 % everything is merged; notebook 04 has the rules. In the engine's own words: "
    f"{plan.picks[0].explain().splitlines()[0]}.",
)
pruning

# %%
done = tree.compact()

# %% jupyter={"source_hidden": true} tags=["check:the_fifth_run"]
after = tree.inspect.levels().to_pylist()
stored = sum(before["rows"].to_pylist())
pruning.then(
    widgets.LsmLevels(tree),
    f"{stored:,} rows in five runs became {after[0]['rows']:,} in one, at the oldest level. A reader asks "
    "one run instead of five.",
)

# %% [markdown]
# ## A whole hour
#
# The tree is left to itself until its first hour is over.

# %%
tree.advance(60)
commits = tree.inspect.commits()


# %% jupyter={"source_hidden": true}
def most_runs(tree: Simulator) -> int:
    """The most runs there ever were."""
    inspect = tree.inspect
    states = (inspect.levels(snapshot=n).to_pylist() for n in inspect.commits()["snapshot_id"].to_pylist())
    return max(len({(file["level"], file["run"]) for file in state}) for state in states)


kinds, max_runs = commits["commit_kind"].to_pylist(), most_runs(tree)
wild = course.task(
    "an hour later",
    "**60** runs were written in this hour. How many lay in the tree at the worst moment? A reader of the "
    "whole table asks all of them, one of a single key at most as many.",
    options={"sixty": "about sixty", "few": "a handful", "one": "never more than one"},
    answer="one" if max_runs == 1 else "few" if max_runs <= 8 else "sixty",
    wrong={
        "sixty": "so many lie there only if nobody prunes, and a compaction began at the fifth run.",
        "few": "that many lie there only if a compaction waits for some runs to come.",
        "one": "a compaction does not begin after every minute: it waits for the trigger.",
    },
    hint="When does the engine act?",
    why=f"At most {max_runs}: with the fifth run the rules begin to look, and one of them fires. So reads "
    "stay fast however long it grows.",
)
wild

# %% jupyter={"source_hidden": true}
timeline, levels = widgets.SnapshotTimeline(tree), widgets.LsmLevels(tree)
timeline.link(levels)
wild.then(
    timeline,
    "● rows came in, ◆ a compaction. Click a commit, use ← and →, or press Space to play: the levels show "
    "the tree as it was. That is **time travel**, and it works on real tables, too.",
)

# %%
wild.then(levels)

# %% [markdown]
# ## What pruning costs
#
# A merge writes all its rows again. How often a row is written until it rests is the **write amplification**.

# %%
table = commits.to_pandas()
flushed = table.loc[table["commit_kind"] == "APPEND", "bytes_added"].sum()
rewritten = table.loc[table["commit_kind"] == "COMPACT", "bytes_added"].sum()
amplification = (flushed + rewritten) / flushed
print(f"{kinds.count('COMPACT')} compactions: each row is written {amplification:.1f} times.")

# %% jupyter={"source_hidden": true}
own = Simulator(shop, {"num-sorted-run.compaction-trigger": 10}, seed=seed).advance(60)
written = own.inspect.commits().to_pandas().groupby("commit_kind")["bytes_added"].sum()
lazy = written.sum() / written["APPEND"]
tradeoff = course.task(
    "a lazier gardener",
    "The same hour, but compaction waits for **10** runs instead of 5. Is *more* or *less* written in all?",
    options={"more": "", "less": "", "same": ""},
    answer="less" if lazy < amplification else "more" if lazy > amplification else "same",
    wrong={
        "more": "each merge takes more rows, but there are fewer merges.",
        "less": "fewer merges do not help if each writes as much more.",
        "same": "a row takes part in another number of merges when they come less often.",
    },
    hint="Does compaction happen more often now, or less?",
    why=f"{lazy:.1f} times instead of {amplification:.1f}. But reads ask up to {most_runs(own)} runs now.",
)
tradeoff

# %% jupyter={"source_hidden": true} tags=["check:more_runs_for_less_writing"]
tradeoff.then(
    "Fewer runs: faster reads, more writing. More runs: cheaper writes, slower reads.\n"
    "There is no best setting, only one that suits you. This course is about that trade-off."
)

# %% [markdown]
# ## Your turn
#
# The **workbench** has all of it in one place: the timeline, the levels, the engine's decision with its sum,
# and what it costs. *Flush* lets a minute pass, *Step* makes one compaction. Set a higher trigger, flush a
# few times, and see the lanes fill up.

# %%
desk = widgets.Workbench(tree)
desk

# %%
course.progress()

# %% [markdown]
# ## What to remember
#
# - Rows come in as **sorted runs**, files that never change. Every run makes reads slower.
# - **Compaction** merges runs and drops old versions. It writes rows again: you choose by a few options.
# - Every commit is a **snapshot** that can still be read.
#
# ## Where to go now
#
# | notebook | one idea |
# |---|---|
# | [01 TPC-H change capture](01_tpch_cdc_ingest.ipynb) | a real table, loaded by Spark (needs Java) |
# | [02 Rows, files, runs](02_rows_files_runs.ipynb) | every commit adds a run, every run costs a read |
# | [03 Merging](03_merging.ipynb) | how runs become one, row by row |
# | [04 Universal compaction](04_universal_compaction.ipynb) | the rules, one by one |
# | [05 Leveled, and the trade-off](05_leveled_and_the_trade_off.ipynb) | another gardener, other costs |
# | [06 Snapshots and manifests](06_snapshots_and_manifests.ipynb) | how a table knows its files |
# | [07 Two writers](07_two_writers.ipynb) | who wins when two commit at once |
# | [08 Crash lab](08_crash_lab.ipynb) | pull the plug, lose nothing |
# | [09 Changelogs](09_changelogs.ipynb) | what changed, for those who follow |
# | [10 Merge engines](10_merge_engines.ipynb) | newest wins, or sums, or parts |
# | [11 Pruning](11_pruning_why_is_my_query_slow.ipynb) | why is my query slow? |
# | [12 What if](12_what_if_on_your_own_table.ipynb) | your table under other options |
# | [13 A foreign table](13_reading_a_foreign_paimon_table.ipynb) | open what another engine wrote |
# | [14 SQL](14_sql.ipynb) | statements, and queries that go on |
# | [15 A dashboard](15_lookup_join_dashboard.ipynb) | a stream joined with tables that change |
# | [16 Change capture](16_cdc_cockpit.ipynb) | a database goes into the lake while it changes |
# | [17 Log and lake](17_log_and_lake.ipynb) | rows are seen in milliseconds, exactly once |
# | [18 Tiering](18_tiering.ipynb) | a streaming cluster is copied into the lake |
# | [19 Keep the shop fast](19_keep_the_shop_fast.ipynb) | a game: you compact while orders stream in |
#
# **You have a Paimon table already?** `./workbench open /path/to/your/table` opens these pictures on it, and
# only reads it.
#
# ## Two questions to try
#
# 1. `Workload("zipf", rows=20_000, keys=400_000)` sells a few articles very often. Does compaction drop more
#    old versions then, or fewer?
# 2. What happens with a trigger of 2? Guess the write amplification before you look.
#
# Next: **02 · Rows, files, runs**, or straight to the real thing in **01**.
