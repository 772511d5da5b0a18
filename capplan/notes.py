"""Notes of an answer that are more than a remark."""


class ToDo(str):
    """A note that asks a person to do something, beside those that only say what was assumed or found."""
