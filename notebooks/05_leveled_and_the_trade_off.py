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
# # 5 · Leveled, and the trade-off
#
# **One idea: every way to compact pays with one of three things (bytes written, runs read, space taken), and
# the options choose which.** The map below has 36 settings on the same flushes. Each spot is a simulation
# under the engine's own rules. Play with it first.

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
import widgets
from tablestore.insight.simulator import Workload

rows = max(round(2_000_000 * scale), 10_000)  # in each flush
orders = Workload("time-series", rows=rows, updates=0.6, lag=4 * rows)  # 6 of 10 rows change a recent order
trade_off = widgets.TradeOff(orders, seed=seed, title="orders").wait(300)
trade_off

# %% [markdown]
# Move *trigger* and *ratio*, switch the strategy, click a spot: its tree opens below. Right means more
# bytes written, up means more runs (left plot) or more space (right plot). Down and left at once would be
# free, and nothing is.


# %% jupyter={"source_hidden": true}
def cost(strategy, trigger, ratio):
    """The outcome of a setting of the map."""
    return trade_off.model.outcomes[trade_off.choose(strategy, trigger=trigger, ratio=ratio).index]


lazy, eager = cost("universal", 8, 1), cost("universal", 2, 1)
trade_off.choose("universal", trigger=5, ratio=1)
along = course.task(
    "along the trail",
    "Universal, size-ratio 1 %. From trigger **8** to trigger **2**: what happens to the bytes written?",
    answer=str(round(eager.write / lazy.write)),
    options={str(n): f"about {n} times as many" for n in sorted({1, 2, 12, round(eager.write / lazy.write)})},
    hint="Move the slider *trigger*, and read *write* in the line above the map.",
    why=f"{lazy.write:.2f} becomes {eager.write:.2f}, and {lazy.read:.1f} runs become {eager.read:.1f}: the "
    "last runs are the dearest.",
)
along

# %%
answer = None  # how many times?
along.check(answer)

# %% jupyter={"source_hidden": true}
small, large = cost("leveled", 4, 2), cost("leveled", 4, 10)
trade_off.choose("universal", trigger=5, ratio=1)
knob = course.task(
    "between levels",
    "Leveled, trigger 4. Each level holds **10** times the newer one, not **2** times. What gets worse?",
    answer="write" if large.write > small.write else "read",
    options={"write": "more bytes are written", "read": "more runs are read", "space": "more space is taken"},
    hint="Switch to *leveled*, and move *ratio*.",
    why=f"Write {small.write:.2f} → {large.write:.2f}, runs {small.read:.1f} → {large.read:.1f}, space "
    f"{small.space:.2f} → {large.space:.2f}. A file that moves on meets more files; there are fewer levels.",
)
knob

# %%
answer = None  # "write", "read" or "space"
knob.check(answer)

# %%
assert eager.write > lazy.write
assert eager.read < lazy.read
assert large.write > small.write
assert large.read < small.read
assert large.space < small.space

# %% [markdown]
# ## How leveled picks
#
# Universal merges runs of equal size. **Leveled**, the default of RocksDB, gives each level a *target size*
# and moves on what exceeds it. Each level has a *score*: level 0 its files over the trigger, others their
# bytes over their target. The highest score of 1 or more goes first:
#
# - Level 0 moves on **as a whole**, merged with what it overlaps in level 1.
# - From level 1 on **one file** moves on, merged with what it overlaps in the next older level.
#
# Paimon has universal compaction only. Leveled is this engine's, also for real tables.

# %%
STRATEGY = "tablestore.compaction.strategy"
BASE = "tablestore.compaction.leveled.max-bytes-for-level-base"
kb = 100 * rows // 1024  # a flush
leveled = {STRATEGY: "leveled", BASE: f"{8 * kb} kb", "target-file-size": f"{3 * kb} kb"}


def tree(*story):
    """A simulated bucket under leveled rules after some flushes and compactions."""
    return course.tree(*story, workload=orders, options=leveled, seed=seed, samples=1_000)


four = tree(4)
assert four.compact(dry_run=True).picks[0].decision.rule == "level 0"
widgets.CompactionControls(four)

# %% jupyter={"source_hidden": true}
first = course.task(
    "the first score",
    "Level 0 holds 4 files. What is its **score**?",
    answer=1,
    hint="Files of level 0 over its trigger, which the panel shows as `L0 ≥`.",
    why="4 / 4 = 1: level 0 is due. With 6 files it would be 1.5.",
)
first

# %%
answer = None  # a number
first.check(answer)

# %% [markdown]
# Some rounds later level 1 holds more than its 8 flushes. The dashed boxes are what the next step takes.

# %%
rounds = 4  # of four flushes and a compaction
full = tree(*[4, "compact"] * rounds)
pick = full.compact(dry_run=True).picks[0].decision
assert pick.rule == "level 1"
levels, plan = widgets.LsmLevels(full), widgets.CompactionControls(full)
plan.link(levels)
levels

# %% jupyter={"source_hidden": true}
files_there = full.inspect.levels()["level"].to_pylist().count(1)
second = course.task(
    "what moves on",
    f"Level 1 holds {files_there} files and is too full. **How many of them** does the next step take?",
    answer=sum(file.level == 1 for file in pick.unit.files),
    hint="From level 1 on a level is one sorted run. Must all of it move to get below the target?",
    why="One: the file that overlaps least of the next level, for its size. Small steps, many of them.",
)
second

# %%
answer = None  # how many files?
second.check(answer)

# %%
assert files_there > 1
full.compact(until_quiet=True)
rules = full.inspect.compactions()["rule"].to_pylist()
assert rules[:rounds] == ["level 0"] * rounds
assert set(rules[rounds:]) == {"level 1"}
print(" → ".join(rules))

# %% [markdown]
# ## Side by side
#
# One setting of each strategy on one timeline: drag the cursor, or play it. A few runs of any size, against
# levels that each hold about their target. The sentence below the charts is the engine's verdict.

# %%
universal = {"target-file-size": leveled["target-file-size"]}
side_by_side = widgets.WhatIf(orders, leveled, universal, flushes=120, seed=seed, samples=500)
side_by_side.wait(300)  # it is carried out in the background

# %%
both = {row.name: row for row in side_by_side.comparison.differences}
assert both["write amplification"].after > both["write amplification"].before
assert both["runs, mean"].after < both["runs, mean"].before
print(side_by_side.comparison.verdict("Leveled"))

# %% [markdown]
# ## On a real table
#
# In the panel *Leveled* is a preview until you store it, and it warns you: Paimon, Flink or Spark, if they
# compact this table, go on by universal rules. Rows stay right; the two only work against each other.

# %%
table = course.orders_table(course.lake(warehouse, seed=seed))
batch = max(round(20_000 * scale), 200)
for number in range(6):
    table.write(course.orders(batch, first=1 + number * batch // 2, seed=seed + number))
before = table.scan().to_arrow().sort_by("order_id")
panel = widgets.CompactionControls(table)
panel.asked = {STRATEGY: "leveled"}  # the same as a click on Leveled
assert "not Paimon's" in panel.frame["warning"]
assert panel.model.pick.rule == "level 0"
panel

# %%
table.with_options({STRATEGY: "leveled"}).compact()
done = table.inspect.compactions().to_pylist()[-1]
assert (done["strategy"], done["rule"]) == ("leveled", "level 0")
assert table.scan().to_arrow().sort_by("order_id").equals(before), "compaction changes no row"
assert STRATEGY not in table.refresh().options, "the strategy was not stored"
assert table.check() == []

# %%
course.progress()

# %% [markdown]
# ## What to remember
#
# - **Write amplification**: bytes written for each byte that came in. **Read amplification**: runs a reader
#   meets. **Space amplification**: bytes stored for each byte that is live. Compaction buys two with the
#   third.
# - A trigger moves a strategy along its trail; the last runs that it saves are the dearest.
# - Streams of many small writes want few rewrites, which is why Paimon has universal compaction.
#
# ## Two questions to try
#
# 1. Make the workload `Workload("sequential", rows=rows)`: new keys only. What becomes of the right plot?
# 2. Open the tree of your choice whole: `widgets.Workbench(trade_off.simulator())`.
#
# Next: **06 · Snapshots and manifests**: how the table knows which files it has.
