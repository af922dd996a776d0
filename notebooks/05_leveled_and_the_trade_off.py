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
# Universal compaction merges runs of equal size and leaves large ones alone. There is an older answer to the
# same question: give each level a *target size*, and move what exceeds it to the next level. That is
# **leveled** compaction, the default of RocksDB. **One idea: every way to compact pays with one of three
# things (bytes written, runs read, space taken), and the options choose which.**
#
# Both get the same flushes here, on the simulator: the engine's own rules over sizes, with no data.
#
# Paimon itself has universal compaction only. Leveled is this engine's, also for real tables, and marked
# "not Paimon's" wherever you meet it.

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
import pyarrow.compute as pc

import widgets
from tablestore.insight.simulator import Workload, simulate

TRIGGER, STRATEGY = "num-sorted-run.compaction-trigger", "tablestore.compaction.strategy"
BASE = "tablestore.compaction.leveled.max-bytes-for-level-base"
MULTIPLIER = "tablestore.compaction.leveled.max-bytes-for-level-multiplier"

rows = max(round(2_000_000 * scale), 10_000)  # in each flush
samples = 1_000  # rows that are drawn of each flush; they stand for the others
workload = Workload("uniform", rows=rows, keys=50 * rows)  # new keys at first, more and more updates
kb = 100 * rows // 1024  # a flush
universal = {TRIGGER: 5, "target-file-size": f"{3 * kb} kb"}
leveled = {STRATEGY: "leveled", BASE: f"{8 * kb} kb", MULTIPLIER: 10, "target-file-size": f"{3 * kb} kb"}
print(f"{workload.text}\nlevel 1 may hold 8 flushes, {8 * kb:,} KiB, each older level 10 times as much")

# %% [markdown]
# ## How leveled picks
#
# Each level has a *score*: how full it is. For level 0 that is its files over a trigger (4), because its
# files are runs of their own. For the others it is their bytes over their target. The level with the
# highest score goes first, if that is 1 or more:
#
# - Level 0 moves on **as a whole**, merged with what it overlaps in level 1.
# - From level 1 on **one file** moves on, merged with what it overlaps in the next older level.


# %%
def tree(*story):
    """A simulated bucket under leveled rules after some flushes and compactions."""
    return course.tree(*story, workload=workload, options=leveled, seed=seed, samples=samples)


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

# %%
eight = tree(4, "compact", 4)
pick = eight.compact(dry_run=True).picks[0].decision
assert pick.rule == "level 0"
assert {file.level for file in pick.unit.files} == {0, 1}
levels, plan = widgets.LsmLevels(eight), widgets.CompactionControls(eight)
plan.link(levels)
levels

# %% [markdown]
# The dashed boxes are the inputs: the four new files and, because their keys are spread over the whole key
# range, every file of level 1. After that and one more round level 1 has taken 12 flushes, and may hold 8.
# Its score is well above 1, so files of it move on to level 2.

# %%
full = tree(4, "compact", 4, "compact", 4, "compact")
pick = full.compact(dry_run=True).picks[0].decision
assert pick.rule == "level 1"
widgets.LsmLevels(full)

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
assert rules[:3] == ["level 0"] * 3
assert set(rules[3:]) == {"level 1"}
print(" → ".join(rules))

# %% [markdown]
# ## The same flushes, two strategies
#
# 200 flushes, compacted by universal and by leveled rules. Guess before you look.

# %%
flushes = 200
runs = {
    name: simulate(workload, options, flushes=flushes, seed=seed, samples=samples)
    for name, options in (("universal", universal), ("leveled", leveled))
}
over_time = {name: run.inspect.amplification("snapshot") for name, run in runs.items()}
mean_runs = {name: pc.mean(table["runs"]).as_py() for name, table in over_time.items()}
written = {name: run.summary.write_amplification for name, run in runs.items()}
space = {name: pc.max(table["space_amplification"]).as_py() for name, table in over_time.items()}

# %% jupyter={"source_hidden": true}
reads = course.task(
    "fewer runs",
    "A reader merges all runs that may hold its key. **Which strategy leaves fewer runs**, on average?",
    answer=min(mean_runs, key=mean_runs.get),
    options=["universal", "leveled"],
    hint="Universal waits for five runs of any level. Leveled waits for four files of level 0 only, and a "
    "older level is one run however full it is.",
    why=f"{mean_runs['leveled']:.1f} runs instead of {mean_runs['universal']:.1f}: leveled keeps few runs.",
)
reads

# %%
answer = None  # "universal" or "leveled"
reads.check(answer)

# %% jupyter={"source_hidden": true}
writes = course.task(
    "fewer bytes",
    "**Which writes fewer bytes** for each byte that came in?",
    answer=min(written, key=written.get),
    options=["universal", "leveled"],
    hint="How often is a row rewritten? Universal merges like with like, so the sizes double. Leveled merges "
    "a little of one level into much of the next.",
    why=f"Universal wrote {written['universal']:.2f} bytes a byte, leveled {written['leveled']:.2f}: fewer "
    "runs have their price.",
)
writes

# %%
answer = None  # "universal" or "leveled"
writes.check(answer)

# %% jupyter={"source_hidden": true}
least = course.task(
    "less space",
    "Old versions take space until they meet the newer one in a merge. **Which took less** at its worst?",
    answer=min(space, key=space.get),
    options=["universal", "leveled"],
    hint="With universal nothing old goes away from the large run until it is merged. With leveled most of "
    "the table lies in the oldest level, and what is newer is small.",
    why=f"Universal took up to {space['universal']:.2f} times what is live, leveled {space['leveled']:.2f}.",
)
least

# %%
answer = None  # "universal" or "leveled"
least.check(answer)

# %%
assert mean_runs["leveled"] < mean_runs["universal"]
assert written["leveled"] > written["universal"]
assert space["leveled"] < space["universal"]
for name, run in runs.items():
    print(f"{name}\n{run.summary.text}\n")

# %% [markdown]
# ## Over time
#
# Three charts for each: bytes written for each byte, sorted runs, and bytes stored for each byte that is
# live. ▴ on the axis is a compaction. Universal first:

# %%
widgets.AmplificationChart(runs["universal"]).wait(60)

# %% [markdown]
# And leveled. Look at the saw teeth of the space: universal lets it grow until rule 1 or a long size ratio
# rewrites all; leveled trims it all the time.

# %%
widgets.AmplificationChart(runs["leveled"]).wait(60)

# %% [markdown]
# The levels at the end, first universal, then leveled: a few runs of any size against levels that each hold
# about their target.

# %%
widgets.LsmLevels(runs["universal"])

# %%
widgets.LsmLevels(runs["leveled"])

# %% [markdown]
# ## Side by side
#
# `WhatIf` carries both out on one timeline. Drag the cursor: both trees are shown after the same flush. The
# sentence below the charts is the engine's verdict.

# %%
side_by_side = widgets.WhatIf(workload, leveled, universal, flushes=flushes, seed=seed, samples=samples)
side_by_side.wait(60)  # it is carried out in the background

# %%
both = {row.name: row for row in side_by_side.comparison.differences}
assert both["write amplification"].after > both["write amplification"].before
assert both["runs, mean"].after < both["runs, mean"].before
print(side_by_side.comparison.verdict("Leveled"))

# %% [markdown]
# ## Turning the knob
#
# The multiplier says how many times as much each level holds as the newer one before it. A file that moves on
# meets about that many files there. A smaller multiplier makes each step cheaper, but more levels.

# %% jupyter={"source_hidden": true}
smaller = simulate(workload, leveled | {MULTIPLIER: 4}, flushes=flushes, seed=seed, samples=samples)
knob = course.task(
    "a smaller multiplier",
    f"With a multiplier of 10 leveled wrote {written['leveled']:.2f} bytes a byte. With **4**, does it write "
    "more, or less?",
    answer="more" if smaller.summary.write_amplification > written["leveled"] else "less",
    options=["more", "less"],
    hint="One file moves to the next level. How many files does it meet there? All are rewritten.",
    why=f"{smaller.summary.write_amplification:.2f}: each step rewrites less. But there is a level more, "
    "so there are more runs.",
)
knob

# %%
answer = None  # "more" or "less"
knob.check(answer)

# %%
runs_of_smaller = pc.mean(smaller.inspect.amplification("snapshot")["runs"]).as_py()
assert smaller.summary.write_amplification < written["leveled"]
assert runs_of_smaller > mean_runs["leveled"]
print(f"{runs_of_smaller:.1f} runs on average instead of {mean_runs['leveled']:.1f}")

# %% [markdown]
# ## On a real table
#
# A real table can be compacted by leveled rules, too. In the panel that is a preview until you store it, and
# it warns you: Paimon, Flink or Spark, if they compact this table, go on by universal rules. The rows stay
# right; the two only work against each other.

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
# - Universal writes less, and pays with reads and space. Leveled reads less and takes less space, and pays
#   with writes.
# - Streams of many small writes want universal, which is why Paimon has it. Tables that are read far more
#   often than written may want leveled.
# - Triggers move a strategy along the same line: fewer runs are paid for with bytes.
#
# ## Two questions to try
#
# 1. Make the workload `Workload("sequential", rows=rows)`: new keys only. Why do both write the same now,
#    and why is space never wasted?
# 2. Which trigger makes universal keep as few runs as leveled, and what does it write then?
#
# Next: **06 · Snapshots and manifests**: how the table knows which files it has.
