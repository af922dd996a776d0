"""The one error that the data sets raise on purpose."""


class DatasetError(ValueError):
    """Fix the call, the directory or the environment as the message says; nothing was changed."""
