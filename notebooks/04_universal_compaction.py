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
# # 4 · Universal compaction
#
# Every write leaves a run, and each run makes reads dearer; merging all of them after every write would make
# writes far dearer. **One idea: look at the sizes of the runs from the newest to the oldest, and merge the
# newest ones as long as they are of about equal size.** That is Paimon's *universal compaction*.
#
# You try the rules on a *simulator*: the engine's own picks over sizes alone. Then on a real table.

# %% tags=["parameters"]
seed = 7
scale = 0.01
solve = False
warehouse = None  # None: a temporary folder

# %%
from notebooks import course

course.begin("04 Universal compaction", solve=solve)
course.check()

# %%
from itertools import islice

import widgets
from tablestore.insight.simulator import Workload

TRIGGER, RATIO = "num-sorted-run.compaction-trigger", "compaction.size-ratio"
rows = max(round(200_000 * scale), 500)  # in each flush
workload = Workload("time-series", rows=rows, lag=rows / 2)  # new keys at the end, some of them late


def tree(*story):
    """A simulated bucket after some flushes and compactions; the trigger is 5."""
    return course.tree(*story, workload=workload, options={TRIGGER: 5}, seed=seed)


def next_pick(simulator):
    """What would be compacted now, and why. Nothing is done."""
    return simulator.compact(dry_run=True).picks[0].decision


def taken(files, decision):
    """Those of `inspect.levels()` that the pick takes."""
    names = {file.file_name for file in decision.unit.files}
    return files.filter([name in names for name in files["file_name"].to_pylist()])


# %% [markdown]
# Orders arrive in time, some of them late, so that neighbouring runs overlap. With fewer runs than the
# trigger, `num-sorted-run.compaction-trigger` (5 unless you change it), no rule looks at sizes:

# %% tags=["check:below_the_trigger"]
waiting = next_pick(tree(4))
print(waiting.explain().splitlines()[0])

# %% [markdown]
# ## The rules in order
#
# At each pick the rules are tried one after another; the first that fires decides.

# %% jupyter={"source_hidden": true} tags=["check:every_rule_is_tried"]
five = tree(5)
names = {
    "early full": "everything, by a clock or below a size; off unless asked for",
    "size amplification": "everything, because the newer runs outweigh the oldest",
    "size ratio": "the newest runs of about equal size",
    "file number": "the newest runs, because there are too many",
    "lift level 0": "whatever lies at level 0; off unless asked for",
}
tried = [trial.rule for trial in next_pick(five).reason.trials]
in_order = course.task(
    "the order of the rules",
    "Put the rules in the order in which they are tried.",
    answer=course.Order({rule: names[rule] for rule in tried if rule in names}),
    hint="One rule is before all others, one after them. Between them: emergencies first, counting last.",
    why="Emergencies (everything is rewritten) come before the daily work, and counting is the last resort.",
)
in_order

# %% jupyter={"source_hidden": true}
in_order.then(
    next_pick(five).explain(),
    "✓ decided; ○ was not reached; a dash is off.",
)

# %% [markdown]
# ## Size amplification: the second in the order
#
# All newer runs may hold newer versions of the oldest run's rows, so at worst the table holds that much too
# much. If
#
# > bytes of the newer runs × 100 > 200 × bytes of the oldest run
#
# everything is merged into the oldest level. The 200 is `compaction.max-size-amplification-percent`.

# %% jupyter={"source_hidden": true}
*newer, oldest = five.inspect.levels()["bytes"].to_pylist()
first = course.task(
    "the first sum",
    "A fifth run came; all five are of about the same size. The newer runs are **how many percent** of the "
    "oldest one?",
    answer=course.Number(round(100 * sum(newer) / oldest), tolerance=15, unit="%"),
    ruler=(0, 600, 10, "%"),
    picture=None,
    hint="Four runs are newer than the oldest. What are four equal parts in percent of one?",
    why="Four of the same size are 400 % of the fifth: above 200 %, so this rule fires and takes them all.",
)
first

# %% jupyter={"source_hidden": true} tags=["check:all_five"]
decision = next_pick(five)
levels, controls = widgets.LsmLevels(five), widgets.CompactionControls(five)
controls.link(levels)
first.then(levels, "Dashed boxes are what would be merged.")

# %% jupyter={"source_hidden": true} tags=["check:one_run_at_level_5"]
first.then(
    controls,
    "**Step** carries it out, **Flush** writes one more run. Try it: what follows has its own trees.",
)

# %% [markdown]
# ## Size ratio: the third
#
# Size amplification is for emergencies. The daily work is the size ratio: the newest run is the *candidate*,
# and of the next one it asks
#
# > candidate × 1.01 ≥ next run ?
#
# If yes, the next run joins and the candidate grows. If not, it stops. The 1.01 is `compaction.size-ratio`, 1
# percent. Four more runs have come:

# %% jupyter={"source_hidden": true}
four_and_big = tree(5, "compact", 4)
decision, files = next_pick(four_and_big), four_and_big.inspect.levels()
second = course.task(
    "which runs",
    "Four fresh runs and the big one. **Click the runs that the next compaction takes.** Do the sum of "
    "size amplification first.",
    answer=course.runs(taken(files, decision)),
    picture=course.RunPicture(files),
    hint="Size amplification: are the four newer runs together more than twice the oldest? Size ratio: add "
    "up from the newest, and at each run ask whether the sum × 1.01 reaches it.",
    why="One reaches one, two reach one, three reach one; but four do not reach the big one. It stays.",
)
second

# %% jupyter={"source_hidden": true} tags=["check:the_four_fresh_runs"]
second.then(
    widgets.CompactionControls(four_and_big),
)

# %% [markdown]
# The result is one run. Its rows must stay newer than those of the run that was left, so it goes to the level
# before that one: the big run lies at level 5, the new one gets level 4.

# %% jupyter={"source_hidden": true}
more = tree(5, "compact", 4, "compact", 3)
where_to = course.task(
    "the next level",
    "That is done, and three more runs were flushed: three fresh ones, one at level 4, one at level 5. **To "
    "which level** does the next compaction write?",
    answer=next_pick(more).unit.output_level,
    options=range(6),
    wrong=lambda level: (
        "nothing is ever written to level 0: fresh runs only lie there."
        if level == 0
        else "the run that stays at level 4 is older than the output, so the output lies before it."
        if level >= 4
        else "there is no need to leave a level free between the output and the run that stays."
    ),
    hint="The three fresh ones are of one size, the run at level 4 holds four of them. Is it taken? The "
    "output gets the level before that of the first run that stays.",
    why="3 × 1.01 does not reach 4. The run at level 4 stays, so the output gets level 3.",
)
where_to

# %% jupyter={"source_hidden": true} tags=["check:older_runs_are_larger"]
story = tree(5, "compact", 4, "compact", 3, "compact")
timeline, then = widgets.SnapshotTimeline(story), widgets.LsmLevels(story)
timeline.link(then)
where_to.then(timeline, "All of it: ● a flush, ◆ a compaction. Click a commit and the levels follow.")

# %% jupyter={"source_hidden": true}
where_to.then(
    then,
    "Sizes grow from level to level though nobody set one: runs are only compared with each other. That is "
    "why it is called *universal*.",
)

# %% [markdown]
# ## File number: the fourth
#
# Both may say no while runs pile up. Then the file number counts. At the trigger, with five runs, the rules
# begin to be tried; this one fires above it, from six on. It takes as many of the newest as are too many, and
# one more, and goes on by the ratio.

# %% jupyter={"source_hidden": true}
crowded = tree(5, "compact", 4, "compact", 3, "compact", {TRIGGER: 3}, 1)
third = course.task(
    "which rule",
    "The trigger is now **3**. There are four runs: a fresh one of size 1 and runs of size 3, 4 and 5. "
    "**Which rule fires?**",
    answer=next_pick(crowded).rule,
    options=["size amplification", "size ratio", "file number", "none"],
    wrong={
        "size amplification": "1 + 3 + 4 are 8, and that is not more than twice 5.",
        "size ratio": "1 × 1.01 does not reach the next run, of size 3.",
        "file number": "it counts only where there are more runs than the trigger.",
        "none": "there are more runs than the trigger, and some rule always ends that.",
    },
    hint="Size amplification: is 1 + 3 + 4 more than twice 5? Size ratio: does 1 × 1.01 reach 3? Then the "
    "file number counts.",
    why="8 is not more than 10, 1 does not reach 3, but runs 4 > trigger 3: the count decides.",
)
third

# %% jupyter={"source_hidden": true} tags=["check:the_count_decides"]
third.then(
    next_pick(crowded).explain(),
)


# %% [markdown]
# ## Change one trigger
#
# A larger size ratio is more generous: larger runs join as well. We go back to five runs.


# %% jupyter={"source_hidden": true} tags=["check:the_big_run_stays_out"]
def runs_taken(percent):
    """How many runs the next pick takes under that size ratio."""
    return len(next_pick(tree(5, "compact", 4, {RATIO: percent})).unit.files)


ratio = course.task(
    "the ratio at which it joins",
    "Four fresh runs of size 1 and one of size 5, as above. From **which size ratio** on, in whole "
    "percent, does the big run join?",
    answer=course.Number(next(p for p in range(1, 100) if runs_taken(p) == 5), tolerance=2, unit="%"),
    ruler=(0, 100, 1, "%"),
    hint="Four of size 1, stretched by the ratio, must reach almost 5: 4 × (1 + ratio / 100) ≥ 5.",
    why="4 × 1.25 = 5. It is a percent less where the big run is a little smaller than five fresh ones.",
)
ratio

# %% [markdown]
# ## The two rules around them
#
# *Early full* and *lift level 0* are off unless you ask for them:

# %% tags=["check:rules_that_are_asked_for"]
early = next_pick(tree(5, "compact", 4, {"compaction.total-size-threshold": "1 gb"}))
lift = next_pick(tree(1, {"compaction.force-up-level-0": True}))
print(early.text)
print(lift.text)

# %% [markdown]
# ## A real table
#
# The same picks work on files. One large run at the oldest level, then a medium write and three small ones.

# %%
table = course.orders_table(course.lake(warehouse, seed=seed))
batch = max(round(50_000 * scale), 300)
table.write(course.orders(20 * batch, seed=seed))
table.compact(full=True)
for number, size in enumerate((8, 1, 1, 1), start=1):
    table.write(course.orders(size * batch, first=1 + number * 4 * batch, seed=seed + number))
before = table.scan().to_arrow().sort_by("order_id")
table_files = table.inspect.levels()

# %% jupyter={"source_hidden": true}
pick = table.compact(dry_run=True).picks[0].decision
real = course.task(
    "which runs of the table",
    "The size ratio stops before the medium run: three small ones do not reach it. **Click the runs that the "
    "compaction takes.** One thing is new: the run at which it stops lies at level 0, and nothing is ever "
    "written **to** level 0.",
    answer=course.runs(taken(table_files, pick)),
    picture=course.RunPicture(table_files),
    hint="The medium run lies at level 0, and no level is before that. So it goes on, run by run, "
    "until it has taken one that lies at a level where it may write.",
    why="It goes on to the first run that is not at level 0, takes it, too, and writes to its level.",
)
real

# %% jupyter={"source_hidden": true} tags=["check:five_runs_of_the_table"]
real.then(
    widgets.CompactionControls(table),
    "A trigger that you change here is a preview: the table keeps its own until you press *Store as table "
    "options*.",
)

# %%
preview = table.with_options({TRIGGER: "9"}).compact(dry_run=True)
done = table.compact()

# %% jupyter={"source_hidden": true} tags=["check:a_preview_and_a_merge"]
kept = table.inspect.compactions().to_pylist()[-1]
real.then(
    kept["explanation"],
    "`table.inspect.compactions()` keeps the reason with the snapshot: months later it still says why.",
)

# %% [markdown]
# ## Are these really Paimon's rules?
#
# Paimon's own Java code was given 3,000 trees, and what it picked was recorded. Here this engine picks for
# the same trees:

# %% jupyter={"source_hidden": true} tags=["check:three_thousand_picks"]
import gzip
import json

from notebooks.cli.places import ROOT
from tablestore.lsm.compaction.recorded import check_picks

recorded = ROOT / "tests" / "golden" / "picks" / "universal-picks.jsonl.gz"
with gzip.open(recorded, "rt") as lines:
    checked = check_picks(lines)
with gzip.open(recorded, "rt") as lines:
    example = next(c for c in map(json.loads, islice(lines, 50)) if c["pick"] and len(c["runs"]) >= 4)
print(f"{checked.cases - checked.wrong:,} of {checked.cases:,} picks agree; one of them, sizes newest first:")
print([sum(size for size, *_ in files) for _, *files in example["runs"]], "→", example["pick"])

# %% [markdown]
# ## A bucket to play with
#
# The whole cockpit of a simulated bucket. Flush, step, or switch *auto* on; change a trigger and go on.

# %%
widgets.Workbench(tree(5, "compact", 4))

# %%
course.progress()

# %% [markdown]
# ## What to remember
#
# - Below the trigger nothing happens. At the trigger the first rule that fires wins.
# - **Size amplification**: the newer runs outweigh the oldest; everything goes to the oldest level.
# - **Size ratio**: the newest runs of about equal size are merged. **File number**: too many runs.
# - The output gets the level before that of the first run that stays, never level 0.
#
# ## Two questions to try
#
# 1. Switch *auto* on in the cockpit and watch a few dozen flushes. Which rule fires most often, and which one
#    writes most bytes?
# 2. What does a trigger of 2 do to write amplification, and what does one of 20 do to the runs a read meets?
#
# Next: **05 · Leveled, and the trade-off**: another answer to the same question, and what each costs.
