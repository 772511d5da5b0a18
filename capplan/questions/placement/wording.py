"""The sentences of a placement."""

import pandas as pd

from capplan.book.assumptions.placement import PlacementAssumptions
from capplan.questions.placement.deadline import Deadline


def when(instant: pd.Timestamp) -> str:
    """Write an instant to the minute, with its day of the week."""
    return f"{instant.ceil('min'):%a %Y-%m-%d %H:%M}"


def hours_words(hours: float) -> str:
    """Write a span in the unit a reader would take."""
    for size, unit in ((1.0, "hour"), (1 / 60, "minute"), (1 / 3600, "second")):
        if abs(hours) >= size or unit == "second":
            text = f"{hours / size:.3g}"
            return f"{text} {unit}{'' if text == '1' else 's'}"
    raise AssertionError("a span always has a unit")


def words_of_links(a: PlacementAssumptions) -> str:
    """Say how links are taken."""
    if a.shared_links:
        return (
            "Links are shared: transfers on one link take turns at its full bandwidth; where links states none, the link is the network"
            " card of the node that sends."
        )
    return "Links are taken as free: transfers do not slow each other."


def remedy_words(deadline: Deadline) -> str:
    """Say what would meet a deadline."""
    enough = deadline.remedies[deadline.remedies["enough"]]
    phrases = []
    for kind in ("one more node", "faster link"):
        for row in enough[enough["remedy"] == kind].head(1).itertuples(index=False):
            phrases.append(
                f"one more node of kind {row.what}" if kind == "one more node" else f"{row.amount:g} Gbit/s on the link {row.what}"
            )
    if phrases:
        return f"{' or '.join(phrases)} would make it"
    return "neither one more node of any kind nor a faster link was found to make it"


def deadline_words(deadline: Deadline) -> str:
    """Answer the deadline question in a sentence."""
    if deadline.met:
        return f"Yes: {deadline.task} ends by {when(deadline.earliest)}, {hours_words(-deadline.late_hours)} before its deadline."
    start = (
        f"No: the earliest end of {deadline.task} is"
        if deadline.met is False
        else f"Not found: the earliest end of {deadline.task} found is"
    )
    late = f"{hours_words(deadline.late_hours)} after its deadline {when(deadline.asked)}"
    sure = "" if deadline.met is False else "; an earlier one is not excluded"
    return f"{start} {when(deadline.earliest)}, {late}{sure}; {remedy_words(deadline)}."
