"""Scheduling policies: an order, a rule for overtaking, and a rule for displacing."""

from dataclasses import dataclass

from capplan.errors import CapplanError, nearest

#: Numbers the compiled code knows them by.
ORDERS = {"submit": 0, "expected": 0, "priority": 0, "deadline": 0, "remaining": 1, "attained": 2, "round_robin": 3}
BACKFILLS = {"strict": 0, "skip": 1, "easy": 2, "conservative": 3}
PREEMPTIONS = {"none": 0, "by_key": 1, "reclaim": 2}
PLACEMENTS = {"pack": 0, "spread": 1, "balanced": 2, "locality": 3}


@dataclass(frozen=True)
class Policy:
    """How waiting jobs are ordered and started.

    Args:
        order: "submit", "expected" (shortest first), "remaining", "priority", "deadline", "attained" (least service first) or
            "round_robin".
        backfill: "strict": nobody overtakes a job that finds no room; "skip": anybody may; "easy": who does not delay the first that waits;
            "conservative": who delays nobody.
        preempt: "none", "by_key" (the order decides who is displaced), or "reclaim" (teams take back what others borrowed).
        fair_share: Is the next job that of the team with the least decayed usage for its share?
        quotas: Are teams held to their quota and what others lend?
    """

    order: str = "submit"
    backfill: str = "strict"
    preempt: str = "none"
    fair_share: bool = False
    quotas: bool = False

    def __post_init__(self) -> None:
        for value, known, what in (
            (self.order, ORDERS, "order"),
            (self.backfill, BACKFILLS, "backfill"),
            (self.preempt, PREEMPTIONS, "preempt"),
        ):
            if value not in known:
                raise CapplanError(f"policy: {what} {value!r} is not known; {nearest(value, known)}")
        if self.backfill == "conservative" and (self.preempt != "none" or self.fair_share or self.quotas):
            raise CapplanError("policy: conservative backfill fixes every start, so it goes with neither displacing, fair share nor quotas")

    @property
    def on_a_changing_fleet(self) -> bool:
        """May nodes come and go under it? Not where starts are fixed ahead, quotas are shares of a fixed fleet, or turns are taken."""
        return self.backfill != "conservative" and not self.quotas and self.order != "round_robin"


#: The policies by name: the choices of the assumptions, and what the simulation is run under.
POLICIES = {
    "fifo": Policy(),
    "shortest_first": Policy(order="expected"),
    "shortest_remaining": Policy(order="remaining", preempt="by_key"),
    "easy_backfill": Policy(backfill="easy"),
    "conservative_backfill": Policy(backfill="conservative"),
    "priority": Policy(order="priority", preempt="by_key"),
    "fair_share": Policy(fair_share=True),
    "quota_borrowing": Policy(backfill="skip", preempt="reclaim", quotas=True),
    "least_attained": Policy(order="attained", preempt="by_key"),
    "deadline_first": Policy(order="deadline", backfill="easy"),
    "time_slicing": Policy(order="round_robin", preempt="by_key"),
}


def policy_named(policy: str | Policy) -> Policy:
    """Return a policy by name; a Policy passes."""
    if isinstance(policy, Policy):
        return policy
    if policy not in POLICIES:
        raise CapplanError(f"there is no scheduling policy {policy}; {nearest(policy, POLICIES)}")
    return POLICIES[policy]
