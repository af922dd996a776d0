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
# # 3 · Merging
#
# Notebook 02 left us with several sorted runs that overlap. A reader, and a compaction, must make one row
# of all the rows a key has. This notebook does that one key at a time. **One idea: runs are sorted, so they
# can be merged in one pass, and for each key the row with the largest sequence number wins.**
#
# What you need to know: a *run* is a file, or a level of files, sorted by key. In one run each key is there
# at most once. A delete is a row too, written −D.

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
from tablestore import col

table = course.orders_table(course.lake(warehouse, seed=seed))
keys = 10
old = course.orders(keys, seed=seed)
table.write(old)
table.compact(full=True)  # the oldest rows, at the oldest level: L5
table.write(course.updates(4, among=keys, seed=seed))
table.write(course.updates(3, among=keys, seed=seed + 1))
gone = 3
table.delete(col("order_id") == gone)
levels = table.inspect.levels().to_pylist()
assert [(file["level"], file["rows"]) for file in levels] == [(0, 1), (0, 3), (0, 4), (5, keys)]
print(f"{len(levels)} sorted runs, {sum(file['rows'] for file in levels)} rows, {keys} keys")

# %% [markdown]
# ## The runs, side by side
#
# One row of the picture is one run, the newest on top. One column is one key. The word in a box is the
# order's status, the small number its **sequence number**: the writer counts rows as they arrive, so a
# larger number is a newer row. Nothing is merged yet: the row *out* is empty.
#
# A merge needs no searching. All runs are sorted, so it looks at the first row of each run, takes the
# smallest key among them, merges what the runs have of it, and goes on. It never goes back.

# %%
view = widgets.MergeView(table, columns=["status"])
view.cursor = -1  # before the merge
view

# %% [markdown]
# Press **→** in the picture to merge the next key, or the play button. Below it, one sentence says why.
#
# First, a prediction.

# %% jupyter={"source_hidden": true}
merged = table.inspect.merging(limit=keys)
steps = merged.outputs.to_pylist()
status = merged.output_rows["status"].to_pylist()
inputs = merged.inputs.to_pylist()
rows_of = [[row for row in inputs if row["step"] == step] for step in range(keys)]
there = [step for step in range(keys) if steps[step]["fate"] == "kept"]
asked = max(there, key=lambda step: len(rows_of[step]))  # the key that is in the most runs
key = merged.output_rows["order_id"][asked].as_py()
winner = course.task(
    "the winner",
    f"The key **{key}** is in {len(rows_of[asked])} runs. Which **sequence number** has the row that wins?",
    answer=steps[asked]["sequence"],
    hint="Newer rows have larger numbers. Which of the small numbers in the key's column is the largest?",
    why="The largest sequence number wins. In the picture newer runs stand on top.",
)
winner

# %%
answer = None  # which sequence number?
winner.check(answer)

# %%
newest = max(rows_of[asked], key=lambda row: row["sequence"])
assert newest["part"] == "kept", "the newest row is kept"
assert all(row["part"] == "superseded" for row in rows_of[asked] if row is not newest)
assert status[asked] == table.get({"order_id": key})["status"], "a reader gets the same row"
print(f"key {key}: {steps[asked]['why']}")
view_of_key = widgets.MergeView(table, columns=["status"], where=f"order_id = {key}")
view_of_key.cursor = 0
view_of_key

# %% [markdown]
# ## What happens to a delete
#
# The newest row of some key may be −D. Then the key has no row: a reader skips it. A compaction has to decide
# more: does it write the −D into its output, or forget it?

# %% jupyter={"source_hidden": true}
fate = course.task(
    "the delete",
    f"All four runs are merged into **L5**, the oldest level. What becomes of the **−D** of key {gone}?",
    options={
        "kept": "it is written to L5, so that readers know the key is gone",
        "dropped": "it vanishes with the rows it has beaten",
        "older": "the older row of the key comes back",
    },
    answer="dropped",
    hint="A −D has one purpose: to beat older rows of its key. Which older rows are left, and where?",
    why="Nothing is older than L5 and every run takes part: no older row is left for the −D to beat.",
)
fate

# %%
answer = None  # "kept", "dropped" or "older"
fate.check(answer)

# %%
lost = next(step for step in range(keys) if steps[step]["fate"] == "dropped")
assert [step["fate"] for step in steps].count("dropped") == 1
assert gone not in merged.rows["order_id"].to_pylist()
print(steps[lost]["why"])
view_of_delete = widgets.MergeView(table, columns=["status"])
view_of_delete.cursor = lost
view_of_delete

# %% [markdown]
# Now only part of the runs: the three of level 0, while L5 is left alone. That is what most compactions
# do, since it costs less.

# %% jupyter={"source_hidden": true}
partly = table.inspect.merging(runs=3, limit=keys)
kept = course.task(
    "a delete while older rows stay",
    f"Only the **three runs of level 0** are merged. Is the −D of key {gone} written to the output?",
    answer="kept" in [row["fate"] for row in partly.outputs.to_pylist() if row["row_kind"] == "-D"],
    hint=f"L5 is not part of this merge, and it has an older row of key {gone}. Who would beat that one?",
    why=f"L5 still holds an older row of key {gone}. Without the −D it would come back: a delete undone.",
)
kept

# %%
answer = None  # True or False
kept.check(answer)

# %%
deleted = [row for row in partly.outputs.to_pylist() if row["row_kind"] == "-D"]
assert [row["fate"] for row in deleted] == ["kept"]
print(deleted[0]["why"])

# %% [markdown]
# ## How many rows come out
#
# A merge reads every row of every run it takes, and writes one row a key that is there.

# %% jupyter={"source_hidden": true}
left = course.task(
    "rows after the merge",
    f"All {len(levels)} runs, {len(inputs)} rows of {keys} keys, are merged into L5. "
    "How many rows does L5 hold then?",
    answer=merged.rows.num_rows,
    hint="One row a key. And is there a key that has no row any more?",
    why=f"{len(inputs)} rows were read to write {merged.rows.num_rows}. The others had lost, or were gone.",
)
left

# %%
answer = None  # how many rows?
left.check(answer)

# %% [markdown]
# The picture and the engine are the same code: let us really compact, and compare.

# %%
table.compact(full=True)
after = table.scan().to_arrow().sort_by("order_id")
assert after.equals(merged.rows.cast(after.schema)), "the steps gave what compaction wrote"
assert [file["level"] for file in table.inspect.levels().to_pylist()] == [5]
widgets.MergeView(table, columns=["status"])  # one run is left, and there is nothing to merge

# %% [markdown]
# ## When arrival is not the truth
#
# The largest sequence number is the row that *arrived* last. Sometimes a row arrives late: a phone was
# offline and sends yesterday's state today. For that a table can name a column of its own, with
# `sequence.field`. Then that column decides, and arrival only breaks ties.

# %% jupyter={"source_hidden": true}
late = [{"id": 1, "status": "packed", "at": 10}]  # arrives last, but is older
early = [{"id": 1, "status": "sent", "at": 20}]
by_arrival = widgets.MergeView.of([late, early], primary_key="id", columns=["status"])
by_field = widgets.MergeView.of(
    [late, early], primary_key="id", options={"sequence.field": "at"}, columns=["status"]
)
truth = course.task(
    "the late row",
    "Two runs: the newer has `packed` with `at = 10`, the older has `sent` with `at = 20`. "
    "The table says **`sequence.field` = `at`**. Which status does the key have?",
    options=["packed", "sent"],
    answer=by_field.model.steps[0].values["status"],
    hint="With `sequence.field` the run does not matter. Compare the two values of `at`.",
    why="20 > 10: the older run wins, because the column decides and not the arrival.",
)
truth

# %%
answer = None  # "packed" or "sent"
truth.check(answer)

# %%
assert by_arrival.model.steps[0].values["status"] == "packed"
assert by_field.model.steps[0].values["status"] == "sent"
assert "although" in by_field.model.steps[0].why
by_field

# %%
assert table.check() == [], "the table is sound"
course.progress()

# %% [markdown]
# ## What to remember
#
# - Runs are sorted, so a merge is one pass over all of them: smallest key first, never back.
# - For each key the row with the largest sequence number wins; `sequence.field` puts a column before it.
# - A −D beats older rows. It is dropped only where nothing older is left outside the merge.
# - Readers and compactions merge by the same rule, so compaction changes no row of the table.
#
# ## Two questions to try
#
# 1. Delete a key that was never written. What does the picture show, and what does a full compaction write?
# 2. Write the same key in two rows of one `table.write(…)`. In how many runs is it, and why?
#
# Next: **04 · Universal compaction**, which runs are merged, and when.
