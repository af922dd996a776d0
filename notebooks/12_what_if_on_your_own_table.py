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
# # 12 · What if, on your own table
#
# Which options would help *your* table? Each snapshot says which files came and which went. **One idea: the
# same commits can be compacted again, on metadata alone, under any options, and the difference counted.**
#
# Nothing is written. Set `path` to a table of your own, also if Spark or Flink wrote it with Paimon.

# %% tags=["parameters"]
seed = 7
scale = 0.01
solve = False
path = None  # a Paimon table with a primary key; None: a small one is made
warehouse = None  # None: a temporary folder

# %%
from notebooks import course

course.begin("12 What if" if path is None else "", solve=solve)
course.check()

# %%
import tablestore as ts
import widgets

TRIGGER, STRATEGY = "num-sorted-run.compaction-trigger", "tablestore.compaction.strategy"
BASE = "tablestore.compaction.leveled.max-bytes-for-level-base"
rows, commits = max(round(160_000 * scale), 400), 40


def updated_table(name, **options):
    """A table after 40 commits, each of updates about a later place; its writers compact as they go."""
    lake.drop_table(name, if_exists=True)
    made = lake.create_table(
        name, schema=course.ORDERS, primary_key=["order_id"], options={"bucket": 1, **options}
    )
    for number in range(commits):
        made.write(course.updates(rows, among=20 * rows, first=1 + number * rows // 2, seed=seed + number))
    return made


lake = course.lake(warehouse, seed=seed)
table = ts.open(path) if path else updated_table("shop.orders")
own = int(table.options.get(TRIGGER, 5))
print(f"{table.name}: {table.inspect.commits().num_rows} commits, compacts from {own} sorted runs on")

# %% [markdown]
# ## What it costs today
#
# **Write amplification**: bytes written for each byte that came in. **Read amplification**: sorted runs a
# reader must merge. **Space amplification**: bytes stored for each byte of a fully compacted copy. At the
# orange ▴, compactions, write rises and the two others fall. Click a chart and the timeline goes along.

# %%
timeline, cost = widgets.SnapshotTimeline(table), widgets.AmplificationChart(table)
timeline.link(cost)
timeline

# %%
cost

# %% tags=["check:what_it_costs_today"]
today = cost.wait().data().to_pylist()[-1]
print(f"write {today['write_amplification']:.2f}, read {today['runs']} runs in all buckets")
print(f"space {today['space_min']:.2f} to {today['space_max']:.2f}: {today['why']}")

# %% [markdown]
# ## A first question
#
# Suppose compaction waited for three more runs.

# %% jupyter={"source_hidden": true}
later = own + 3
what_if = table.what_if({TRIGGER: later})
found = {difference.name: difference for difference in what_if.differences}


def direction(name):
    """more, less or same"""
    change = found[name].after - found[name].before
    return "more" if change > 0 else "less" if change < 0 else "same"


outcomes = {
    "a": "less is written, and readers merge more runs",
    "b": "less is written, and readers merge fewer runs",
    "c": "more is written, and readers merge fewer runs",
    "d": "more is written, and readers merge more runs",
}
came = {("less", "more"): "a", ("less", "less"): "b", ("more", "less"): "c", ("more", "more"): "d"}
waiting = course.task(
    f"trigger {later}",
    f"The trigger goes up from {own} to **{later}**. What happens to the bytes written, and to the runs a "
    "reader meets?",
    options=outcomes,
    answer=came.get((direction("bytes compacted"), direction("runs, mean")), "a"),
    wrong={
        "a": "runs that gather for longer are merged less often.",
        "b": "runs that wait for a merge are runs that a reader meets.",
        "c": "merges are rarer with a higher trigger, and more runs wait for one.",
        "d": "merges are rarer with a higher trigger, so bytes are written less often.",
    },
    hint="Runs gather for longer before they are merged. So how often is each byte rewritten? And who pays?",
    why="Fewer, larger merges: each byte is rewritten less often. Until then readers live with the runs.",
)
waiting

# %%
view = widgets.WhatIf(table, {TRIGGER: later})
timeline.link(view)

# %% jupyter={"source_hidden": true} tags=["check:one_replay"]
view.wait()
counted = course.task(
    "compactions of B",
    f"A compacted {found['compactions'].before} times. How many times did **B**?",
    answer=found["compactions"].after,
    ruler=(0, found["compactions"].before + 5, 1),
    hint="Each waits for three more runs than before. Divide the flushes by the runs that one takes.",
    why="Each compaction waits for three more runs, so there are fewer of them, and each is larger.",
)
counted

# %% jupyter={"source_hidden": true}
worst = course.task(
    "the worst moment of B",
    "Readers do not live in the mean. **How many sorted runs** does B hold at its worst commit?",
    answer=found["runs, most"].after,
    options=range(later - 4, later + 4),
    wrong=lambda count: (
        f"up to the trigger, {later}, no rule acts."
        if count < later
        else f"from {later} runs on a rule acts."
    ),
    hint="How many runs may gather before the trigger merges some?",
    why="The trigger is a promise to readers: beyond it runs are merged before the next commit is done.",
)
worst

# %% jupyter={"source_hidden": true}
worst.then(
    view,
    "**A** is the table as it was, thin and grey; **B** the same commits under the other options, bold and "
    "dashed. ● brought rows, ◆ compacted. Move with the arrow keys.",
)

# %% [markdown]
# ## Another strategy
#
# **Leveled** compaction (notebook 05) is this engine's, not Paimon's. Would this table like it? Level 1 may
# hold what 16 flushes bring.

# %%
flush = what_if.actual.total("bytes_ingested") // max(what_if.history.commits, 1)
leveled = {STRATEGY: "leveled", BASE: f"{max(16 * flush // 1024, 4)} kb"}
instead = what_if.under(leveled)

# %% jupyter={"source_hidden": true}
changes = {
    "write": instead.changed.write_amplification / instead.actual.write_amplification,
    "read": instead.changed.mean("runs") / instead.actual.mean("runs"),
    "space": instead.changed.total("live_bytes") / instead.actual.total("live_bytes"),
}
price = course.task(
    "the price of leveled",
    "Under leveled, which of the three numbers rises most, compared with what the table did?",
    options={
        "write": "bytes written",
        "read": "runs a reader merges, mean",
        "space": "bytes stored at the end",
    },
    answer=max(changes, key=changes.get),
    wrong={
        "write": "what is merged more often would have to be written more often.",
        "read": "leveled keeps a level in one run, so readers meet few.",
        "space": "leveled merges early, so little of what is stored is outdated.",
    },
    hint="Leveled merges what arrives into level 1 again and again. What does that rewrite each time?",
    why=f"{instead.verdict('Leveled')} It rewrites level 1 for every few flushes: few runs and little waste "
    "are bought with bytes.",
)
price

# %% jupyter={"source_hidden": true} tags=["check:the_same_verdict", "check:the_tables_own_files"]
other = widgets.WhatIf(table, leveled).wait()
price.then(other, "Change the fields of B and press *Replay*. *Copy options of B* gives what to set.")

# %% [markdown]
# ## Is it true?
#
# The first test costs nothing: replayed under its **own** options, does the table come out as it is, file by
# file?

# %% [markdown]
# It does. But B merges files that never met in reality: how many rows come out is estimated from the merges
# the table did make.

# %% jupyter={"source_hidden": true}
guessed = course.task(
    "estimated merges",
    "How many of B's merges (trigger) rest on an **estimate** of what came out?",
    answer=what_if.changed.estimated,
    ruler=(0, max(found["compactions"].after, what_if.changed.estimated) + 3, 1),
    hint="A merge with the very inputs of a real one needs no estimate. Under another trigger, how many are?",
    why="The others had the very inputs of a real merge: their real files come out, no estimate needed.",
)
guessed

# %%
guessed.then(what_if.trust)

# %% [markdown]
# The second test is the hard one: write the very same rows into a table that **has** the other trigger, and
# measure.

# %% jupyter={"source_hidden": true} tags=["check:as_forecast"]
if path is None:
    twin = updated_table("shop.twin", **{TRIGGER: later})
    real = twin.inspect.amplification().to_pylist()[0]
    forecast = what_if.changed
    lines = [f"{'':<22}{'forecast':>10}{'real':>10}"]
    for name, guess, is_so in (
        ("compactions", forecast.total("compactions"), real["compactions"]),
        (
            "write amplification",
            round(forecast.write_amplification, 2),
            round(real["write_amplification"], 2),
        ),
        ("bytes live", forecast.total("live_bytes"), real["live_bytes"]),
    ):
        lines.append(f"{name:<22}{guess:>10,}{is_so:>10,}")
counted.then(
    "\n".join(lines) if path is None else what_if.trust,
    "The compactions agree to the last one, the bytes within a few percent. On a table of yours the "
    "trust note "
    "says what to expect.",
)

# %% [markdown]
# ## When it was ill
#
# The same record says when more runs waited than the trigger allows, and what the doctor would have done.
# A tint is the time during which a finding held, a dashed line its limit.

# %%
widgets.LakeAlarms(table)

# %% jupyter={"source_hidden": true} tags=["check:asked_again"]
course.progress()

# %% [markdown]
# ## What to remember
#
# - Snapshots are a record: the same commits can be compacted again, under any options, on metadata.
# - A larger trigger writes less and lets readers merge more runs; leveled does the opposite.
# - Look at the worst commit, not only at the mean.
# - Trust is measured: the replay under the own options must give the table's own files.
# - What was expired cannot be replayed. Keep some history if you want to ask.
#
# ## Two questions to try
#
# 1. `table.what_if({TRIGGER: later}, baseline={TRIGGER: 2})` compares two sets that the table never had.
#    Where does write amplification stop falling as the trigger grows?
# 2. Set `compaction.size-ratio` to 50 in the fields of B. Which rule fires more often now, and on what?
#
# Next: **13 · Reading a foreign Paimon table**, where nothing was written by this engine.
