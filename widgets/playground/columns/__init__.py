"""What stands in for numpy, Arrow and anywidget in a browser, which has none of them: a folder of `sys.path`.

`numpy` and `pyarrow` have the part that the simulator, the merge engines and the pictures use, on lists;
values and draws are those of the real ones. `anywidget` has traits and messages without a comm, `absent`
lets other packages import and names them when they are asked for something.
"""
