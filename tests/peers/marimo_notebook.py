"""A notebook of marimo with a cockpit, run in its environment by tests/widgets/test_browser_marimo.py.

The packages of the project come after marimo's own; the table is the one of WORKBENCH_TABLE.
"""

import marimo

app = marimo.App(width="full")


@app.cell
def _():
    import os
    import sys

    sys.path.append(os.environ["WORKBENCH_PACKAGES"])
    import tablestore as ts
    import widgets

    bench = widgets.Workbench(ts.open(os.environ["WORKBENCH_TABLE"]))
    bench  # noqa: B018 - the cell's output
    return


if __name__ == "__main__":
    app.run()
