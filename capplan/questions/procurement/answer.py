"""The answer: one frozen set of tables, one sentence, and the proof."""

from dataclasses import dataclass, field

import pandas as pd


@dataclass(frozen=True)
class Proof:
    """How close to the best possible plan this one is proven to be.

    Args:
        lower_usd, upper_usd: The best plan costs at least the first; this plan costs the second (risk-weighted, discounted, gross; where
            demand is held, with what serving it costs in the years after the horizon).
        gap_share: (upper - lower) / upper.
        stopped_by: "optimal", "gap" (the wanted gap is proven), "time limit" or "limit" (the clock, or another limit, came first).
        method: How it was solved.
        points, decisions: Recourse points and first-stage decisions of the model.
    """

    lower_usd: float
    upper_usd: float
    gap_share: float
    stopped_by: str
    method: str
    points: int
    decisions: int


@dataclass(frozen=True)
class Purchases:
    """What to buy in each quarter, and why.

    Args:
        purchases: offer_id, kind, sku, provider, accelerator, region, geography, term, gives, quarter, end_quarter, starts, ends, lots,
            machines, accelerators, hours (of one machine, over the contract), usd_per_hour (one machine), upfront_usd, usd (whole
            contract), bridge_usd (expected cost of slipped delivery), beyond_horizon_usd, requoted (rests on a quote that must be given
            again), submit_by (last day to ask for approval), sign_by (last day of signature, `approval_days` later), signed_on (that day,
            or the first on which it can be signed), late (the day to submit is past), firm (due before the next review).
        capacity: quarter, starts, ends (first and last day), share (of the quarter), provider, accelerator, region, source (existing,
            bought), term, accelerators: a row for each part of a quarter in which they stay the same.
        dispatch: quarter, class, region, source, provider, accelerator, expected_accelerator_hours, expected_work, expected_usd.
        costs: path, probability, quarter, component, usd; undiscounted. Data that leaves its home is the component egress; what is not paid
            for machines that come late is late_delivery, and power of bought machines that is paid for in any case is power_paid_for, both
            below zero.
        service: path, class, region, quarter, demanded, served, shortfall, served_share.
        paths: path, probability, demand_path, price_state, delivery_state: what each path of costs and service stands for.
        binding: limit_id, kind, quarter, limit, used, slack (below zero where a soft limit is exceeded), usd_per_unit (what one more unit
            would save; missing for limits on purchases, which more fills in whole lots alone).
        limit_lots: What more of limits on purchases would let in and save, as in `whole_lots.limits_in_lots`.
        rejected: offer_id, accelerator, term, quarter, usd_per_hour, reduced_cost_usd (what one lot more would add to cost),
            entry_usd_per_hour (at it and below, a plan with the offer costs no more than the plan; missing where no such price is known or
            a limit holds it back; where the program is not written out, at today's prices of what replaces contracts after the horizon),
            none_from_usd_per_hour (at it and above, none does; where the program is written out the same price, or 0 where it pays at
            none; missing where the proven gap does not tell), judged_by (all plans: the two are one, within 1 %; whole lots: by the
            plan's neighbours; parts of lots), why.
        alternatives: name, expected_usd, cvar_usd, p10_usd, p90_usd, worst_usd, objective_usd (all discounted and gross; where demand is
            held, with what serving it costs in the years after the horizon), spend_usd, shortfall_usd (undiscounted, planned quarters),
            beyond_horizon_usd, regret_usd (objective less the plan's), meaning.
        information: name, usd, meaning: value of a perfect forecast (EVPI), of planning with scenarios (VSS), and cost of waiting.
        proof: Bounds and how they were reached.
        headline, notes: One sentence; what was assumed or must be known.
        deferrals: class, region, from_quarter, to_quarter, work, usd (price of the delay): work that is put off; service counts it where it
            is done.
        agreements: agreement_id, provider, start, end, committed_usd, rolled_in_usd, drawn_usd, signed_usd (still to come from contracts
            signed), bought_usd, by_the_hour_usd (expected), rolled_out_usd, shortfall_usd (expected): how far each contract year of a spend
            agreement is used up.
        branches: branch, probability, demand_share, offer_id, kind, quarter, lots, accelerators, usd, sign_by, firm: what would be signed
            now and later if later purchases may follow the demand seen by the next review; empty where paths do not differ by then.
        explanation: about, words: a line in plain words for each number the plan rests on.
        verdicts: offer_id, quarter, lots, usd, verdict (sign, wait, too close to call), saves_usd, saves_low_usd, saves_high_usd, paths,
            later_price_usd, later_demand_usd: what signing each purchase due now saves against waiting for it, on paths the plan has not
            seen, by the price of the next review and by all else; empty where there are none.
        departures: contract_id, what (leave, sell, exchange), provider, accelerator, quarter, day, machines, of_machines, accelerators,
            not_owed_usd (payments that fall away), exit_usd (paid at once; below zero where money comes back), saves_usd (against keeping
            them beside all else that the plan does), submit_by, sign_by (day of notice), firm, offer_id, lots: machines given back.
        endings: offer_id, quarter, lots, and a column for each other end of the horizon (truncate, count_in_full): lots of each purchase
            due now that would be taken under it.
        left_out: offer_id, accelerator, constraint, over, unit, words: what the book offers, or has signed, and the plan cannot buy or
            renew on any day, with what stands against it from the first planned quarter on.
    """

    purchases: pd.DataFrame
    capacity: pd.DataFrame
    dispatch: pd.DataFrame
    costs: pd.DataFrame
    service: pd.DataFrame
    binding: pd.DataFrame
    limit_lots: pd.DataFrame
    rejected: pd.DataFrame
    alternatives: pd.DataFrame
    information: pd.DataFrame
    proof: Proof
    headline: str
    notes: tuple[str, ...]
    paths: pd.DataFrame = field(default_factory=pd.DataFrame)
    deferrals: pd.DataFrame = field(default_factory=pd.DataFrame)
    agreements: pd.DataFrame = field(default_factory=pd.DataFrame)
    branches: pd.DataFrame = field(default_factory=pd.DataFrame)
    explanation: pd.DataFrame = field(default_factory=pd.DataFrame)
    verdicts: pd.DataFrame = field(default_factory=pd.DataFrame)
    departures: pd.DataFrame = field(default_factory=pd.DataFrame)
    endings: pd.DataFrame = field(default_factory=pd.DataFrame)
    left_out: pd.DataFrame = field(default_factory=pd.DataFrame)

    @property
    def decided(self) -> pd.DataFrame:
        """All that the plan decides of contracts: offer_id, quarter, lots of purchases, renewals and departures."""
        keys = ["offer_id", "quarter", "lots"]
        return pd.concat([self.purchases[keys], self.departures[keys]], ignore_index=True) if len(self.departures) else self.purchases[keys]
