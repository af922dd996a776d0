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
# the options choose which.** Each spot of the map is one setting, simulated on the same flushes. Play first.

# %% tags=["parameters"]
seed = 7
scale = 0.01
solve = False
warehouse = None  # None: a temporary folder

# %%
from notebooks import course

course.begin("05 Leveled and the trade-off", solve=solve)
course.check()

# %%
import widgets
from tablestore.insight.simulator import Workload

rows = max(round(2_000_000 * scale), 10_000)  # in each flush
orders = Workload("time-series", rows=rows, updates=0.6, lag=4 * rows)  # 6 of 10 rows change a recent order
trade_off = widgets.TradeOff(orders, seed=seed, title="orders").wait(300)
trade_off


# %% [markdown]
# Move *trigger* and *ratio*, switch the strategy, click a spot: its tree opens below. Down and left at once
# would be free, and nothing is.


# %% jupyter={"source_hidden": true}
def cost(strategy, trigger, ratio):
    """The outcome of a setting of the map."""
    return trade_off.model.outcomes[trade_off.choose(strategy, trigger=trigger, ratio=ratio).index]


lazy, eager = cost("universal", 8, 1), cost("universal", 2, 1)
small, large = cost("leveled", 4, 2), cost("leveled", 4, 10)
trade_off.choose("universal", trigger=5, ratio=1)
along = course.task(
    "along the trail",
    "Universal, size-ratio 1 %. From trigger **8** to trigger **2**: what happens to the bytes written?",
    answer=str(round(eager.write / lazy.write)),
    options={str(n): f"about {n} times as many" for n in sorted({1, 2, 12, round(eager.write / lazy.write)})},
    wrong=lambda times: f"divide: {eager.write:.2f} bytes at trigger 2, {lazy.write:.2f} at trigger 8.",
    hint="Move the slider *trigger*, and read *write* in the line above the map.",
    why=f"{lazy.write:.2f} becomes {eager.write:.2f}, and {lazy.read:.1f} runs become {eager.read:.1f}: the "
    "last runs are the dearest.",
)
along

# %% jupyter={"source_hidden": true} tags=["check:the_trade_off"]
knob = course.task(
    "between levels",
    "Leveled, trigger 4. Each level holds **10** times the newer one, not **2** times. What gets worse?",
    answer=next(what for what in ("write", "read", "space") if getattr(large, what) > getattr(small, what)),
    options={"write": "more bytes are written", "read": "more runs are read", "space": "more space is taken"},
    wrong={
        "write": "a file that moves on meets fewer files then.",
        "read": "larger steps mean fewer levels, and each level is one run to read.",
        "space": "the last level holds a larger part of all then, and little of it is outdated.",
    },
    hint="Switch to *leveled*, and move *ratio*.",
    why=f"Write {small.write:.2f} → {large.write:.2f}, runs {small.read:.1f} → {large.read:.1f}, space "
    f"{small.space:.2f} → {large.space:.2f}. A file that moves on meets more files; there are fewer levels.",
)
knob

# %% [markdown]
# ## How leveled picks
#
# **Leveled**, the default of RocksDB, gives each level a *target size* and a *score*: level 0 its files over
# the trigger, others their bytes over their target. The highest score of 1 or more goes first. Level 0 moves
# on as a whole, an older level file by file. Paimon has universal compaction only; leveled is this engine's.

# %%
STRATEGY = "tablestore.compaction.strategy"
BASE = "tablestore.compaction.leveled.max-bytes-for-level-base"
kb = 100 * rows // 1024  # a flush
leveled = {STRATEGY: "leveled", BASE: f"{8 * kb} kb", "target-file-size": f"{3 * kb} kb"}


def tree(*story):
    """A simulated bucket under leveled rules after some flushes and compactions."""
    return course.tree(*story, workload=orders, options=leveled, seed=seed, samples=1_000)


def next_pick(simulator):
    """What would be compacted now, and why. Nothing is done."""
    return simulator.compact(dry_run=True).picks[0].decision


six = tree(6)

# %% jupyter={"source_hidden": true}
files = six.inspect.levels().num_rows
score = next(trial for trial in next_pick(six).reason.trials if trial.rule == "level 0")
first = course.task(
    "the first score",
    f"Level 0 holds **{files}** files, its trigger is **4**. What is its **score**?",
    answer=course.Number(dict(score.numbers)["score"]),
    ruler=(0, 4, 0.5),
    hint="Files of level 0 over its trigger.",
    why=f"{files} / 4: level 0 is due.",
)
first

# %% jupyter={"source_hidden": true} tags=["check:level_0_is_due"]
first.then(
    widgets.CompactionControls(six),
    "The panel has the same sum, and the scores of the other levels.",
)

# %% [markdown]
# Some rounds later level 1 holds more than its target.

# %%
full = tree()
while full.inspect.levels()["level"].to_pylist().count(2) < 3:
    if not full.compact().busy:
        full.flush()
while next_pick(full).rule != "level 1":
    if not full.compact().busy:
        full.flush()

# %% jupyter={"source_hidden": true}
pick = next_pick(full)
moving = [file.file_name for file in pick.unit.files if file.level == 1]
second = course.task(
    "what moves on",
    "Level 1 is too full. The next step moves what overlaps **least** of level 2, for its size. **Click each "
    "file of level 1 that it takes.**",
    answer=course.files(full.inspect.levels(), moving),
    picture=course.RunPicture(full.inspect.levels(), by="file"),
    hint="Below which box of level 1 is the least of level 2?",
    why="What overlaps little costs little: all that it overlaps is written again. Small steps, many of "
    "them.",
)
second

# %% jupyter={"source_hidden": true} tags=["check:a_part_of_level_1"]
levels, plan = widgets.LsmLevels(full), widgets.CompactionControls(full)
plan.link(levels)
second.then(levels, pick.explain().splitlines()[0])

# %% [markdown]
# ## Side by side
#
# One setting of each on one timeline: play it.

# %% tags=["check:universal_beside_leveled"]
universal = {"target-file-size": leveled["target-file-size"]}
side_by_side = widgets.WhatIf(orders, leveled, universal, flushes=120, seed=seed, samples=500)
side_by_side.wait(300)  # it is carried out in the background

# %% [markdown]
# ## On a real table
#
# *Leveled* is a preview until you store it: other engines go on by universal rules.

# %%
table = course.orders_table(course.lake(warehouse, seed=seed))
batch = max(round(20_000 * scale), 200)
for number in range(6):
    table.write(course.orders(batch, first=1 + number * batch // 2, seed=seed + number))
before = table.scan().to_arrow().sort_by("order_id")
panel = widgets.CompactionControls(table)
panel.asked = {STRATEGY: "leveled"}  # the same as a click on Leveled
panel

# %%
table.with_options({STRATEGY: "leveled"}).compact()
done = table.inspect.compactions().to_pylist()[-1]
print(done["strategy"], "by the rule", done["rule"])

# %% jupyter={"source_hidden": true} tags=["check:a_preview"]
course.progress()

# %% [markdown]
# ## What to remember
#
# - Compaction buys two of three with the third: bytes written (**write amplification**), runs that a reader
#   meets (**read**), bytes stored for each live one (**space**).
# - A trigger moves a strategy along its trail; the last runs that it saves are the dearest.
# - Many small writes want few rewrites: so Paimon has universal compaction.
#
# ## Two questions to try
#
# 1. `Workload("sequential", rows=rows)` has new keys only. What becomes of the right plot?
# 2. `widgets.Workbench(trade_off.simulator())` opens the tree of your choice whole. What waits in it?
#
# Next: **06 · Snapshots and manifests**.
