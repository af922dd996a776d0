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
# Sorted runs overlap, and a reader, or a compaction, must make one row of all the rows a key has. **One
# idea: runs are sorted, so they are merged in one pass, and for each key the row with the largest sequence
# number wins.**
#
# You need to know: a *run* is sorted by key and has each key at most once. A delete is a row too, written −D.

# %% tags=["parameters"]
seed = 7
scale = 0.01
solve = False
warehouse = None  # None: a temporary folder

# %%
from notebooks import course

course.begin("03 Merging", solve=solve)
course.check()

# %% tags=["check:four_runs"]
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
print(f"{len(levels)} sorted runs, {sum(file['rows'] for file in levels)} rows, {keys} keys")

# %% [markdown]
# ## Who wins
#
# A row of the picture is a run, the newest on top; a column is a key. The small number is the **sequence
# number**: the writer counts rows as they arrive. A merge looks at the first row of each run, takes the
# smallest key, merges what the runs have of it, and goes on; it never goes back.

# %% jupyter={"source_hidden": true}
merged = table.inspect.merging(limit=keys)
steps = merged.outputs.to_pylist()
status = merged.output_rows["status"].to_pylist()
inputs = merged.inputs.to_pylist()
words = merged.input_rows["status"].to_pylist()
rows_of = [[row for row in inputs if row["step"] == step] for step in range(keys)]
there = [step for step in range(keys) if steps[step]["fate"] == "kept"]
asked = max(there, key=lambda step: len(rows_of[step]))  # the key that is in the most runs
key = merged.output_rows["order_id"][asked].as_py()
names = list(course.run_names(table.inspect.levels()))


def cell(run, step):
    """The row of a key in a run; those of the key that is asked for can be clicked."""
    for place, row in enumerate(inputs):
        if (row["run"], row["step"]) == (run, step):
            minus = row["row_kind"] == "-D"
            said = "−D" if minus else words[place]
            name = f"{names[run]}" if step == asked else ""
            return course.Cell(said, name, note=str(row["sequence"]), tone="minus" if minus else "plain")
    return None


grid = course.Grid(
    tuple(f"key {merged.output_rows['order_id'][step].as_py()}" for step in range(keys)),
    tuple((name, tuple(cell(run, step) for step in range(keys))) for run, name in enumerate(names)),
)
newest = max(rows_of[asked], key=lambda row: row["sequence"])
winner = course.task(
    "the winner",
    f"The key **{key}** is in {len(rows_of[asked])} runs. **Click the row that wins.**",
    answer=course.Each((next(names[row["run"]] for row in rows_of[asked] if row["part"] == "kept"),)),
    picture=grid,
    hint="Newer rows have larger numbers. Which of the small numbers in the key's column is the largest?",
    why="The largest sequence number wins. In the picture newer runs stand on top.",
)
winner

# %% jupyter={"source_hidden": true} tags=["check:the_newest_row_is_kept"]
view = widgets.MergeView(table, columns=["status"])
view.cursor = asked
winner.then(view, "Press **→** to merge the next key. One sentence says why.")

# %% [markdown]
# ## What happens to a delete
#
# The newest row of some key may be −D: readers skip the key. A compaction has to decide more: does it write
# the −D into its output, or forget it?

# %% jupyter={"source_hidden": true}
lost = next(step for step in range(keys) if merged.output_rows["order_id"][step].as_py() == gone)
fate = course.task(
    "the delete",
    f"All four runs are merged into **L5**, the oldest level. What becomes of the **−D** of key {gone}?",
    options={
        "kept": "it is written to L5, so that readers know the key is gone",
        "dropped": "it vanishes with the rows it has beaten",
        "older": "the older row of the key comes back",
    },
    answer=steps[lost]["fate"],
    wrong={
        "kept": "no run is older than L5, so there is nothing that it would have to hide.",
        "dropped": "then an older row of the key would have to be gone as well.",
        "older": "the −D has the larger sequence number: it beats the older row.",
    },
    hint="A −D has one purpose: to beat older rows of its key. Which older rows are left, and where?",
    why="Nothing is older than L5 and every run takes part: no older row is left for the −D to beat.",
)
fate

# %% jupyter={"source_hidden": true} tags=["check:one_delete_is_dropped"]
view_of_delete = widgets.MergeView(table, columns=["status"])
view_of_delete.cursor = lost
fate.then(view_of_delete)

# %% jupyter={"source_hidden": true}
partly = table.inspect.merging(runs=3, limit=keys)
kept = course.task(
    "a delete while older rows stay",
    "Most compactions take part of the runs, since that costs less. Only the **three runs of level 0** are "
    f"merged, L5 is left alone. Is the −D of key {gone} written to the output?",
    answer="kept" in [row["fate"] for row in partly.outputs.to_pylist() if row["row_kind"] == "-D"],
    wrong={
        "yes": "then something would be left that it must hide.",
        "no": "L5 is not merged, and it still has a row of the key that a reader would see again.",
    },
    hint=f"L5 is not part of this merge, and it has an older row of key {gone}. Who would beat that one?",
    why=f"L5 still holds an older row of key {gone}. Without the −D it would come back: a delete undone.",
)
kept

# %% jupyter={"source_hidden": true} tags=["check:the_delete_is_kept"]
deleted = [row for row in partly.outputs.to_pylist() if row["row_kind"] == "-D"]
kept.then(deleted[0]["why"])

# %% [markdown]
# ## How many rows come out

# %% jupyter={"source_hidden": true}
left = course.task(
    "rows after the merge",
    f"All {len(levels)} runs, {len(inputs)} rows of {keys} keys, are merged into L5. "
    "How many rows does L5 hold then?",
    answer=merged.rows.num_rows,
    ruler=(0, len(inputs), 1, "rows"),
    hint="One row a key. And is there a key that has no row any more?",
    why=f"{len(inputs)} rows were read to write {merged.rows.num_rows}. The others had lost, or were gone.",
)
left

# %%
table.compact(full=True)
after = table.scan().to_arrow().sort_by("order_id")

# %% jupyter={"source_hidden": true} tags=["check:the_steps_are_the_merge"]
left.then(
    widgets.MergeView(table, columns=["status"]), "Compacted: one run is left, and nothing is to be merged."
)

# %% [markdown]
# ## When arrival is not the truth
#
# The largest sequence number is the row that *arrived* last. A phone that was offline sends yesterday's state
# today. For that a table names a column of its own with `sequence.field`: it decides, and arrival only breaks
# ties.

# %% jupyter={"source_hidden": true}
late = [{"id": 1, "status": "packed", "at": 10}]  # arrives last, but is older
early = [{"id": 1, "status": "sent", "at": 20}]
by_arrival = widgets.MergeView.of([late, early], primary_key="id", columns=["status"])
by_field = widgets.MergeView.of(
    [late, early], primary_key="id", options={"sequence.field": "at"}, columns=["status"]
)
truth = course.task(
    "the late row",
    "Both runs have a row of the key, and **`sequence.field` = `at`**. **Click the row that wins.**",
    answer=course.Each((by_field.model.steps[0].values["status"],)),
    picture=course.Grid(
        ("status", "at"),
        tuple(
            (name, (course.Cell(row["status"], row["status"]), course.Cell(str(row["at"]), row["status"])))
            for name, (row,) in (("newest run", late), ("older run", early))
        ),
    ),
    hint="With `sequence.field` the run does not matter. Compare the two values of `at`.",
    why="20 > 10: the older run wins, because the column decides and not the arrival.",
)
truth

# %% jupyter={"source_hidden": true} tags=["check:a_column_decides"]
truth.then(
    by_field,
)

# %% jupyter={"source_hidden": true} tags=["check:sound"]
course.progress()

# %% [markdown]
# ## What to remember
#
# - A merge is one pass over sorted runs: smallest key first, never back.
# - The largest sequence number wins; `sequence.field` puts a column before it.
# - A −D is dropped only where nothing older is left outside the merge.
# - Readers and compactions merge by the same rule, so compaction changes no row of the table.
#
# ## Two questions to try
#
# 1. Delete a key that was never written. What does the picture show, and what does a full compaction write?
# 2. Write the same key in two rows of one `table.write(…)`. In how many runs is it, and why?
#
# Next: **04 · Universal compaction**, which runs are merged, and when.
