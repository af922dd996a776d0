// The workbench of a page without a kernel: its parts answer for themselves.
LW_REPLIES.workbench = () => {};
