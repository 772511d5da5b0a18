"""The answer of the portfolio question, and the rehearsal it can be given."""

from dataclasses import dataclass

import pandas as pd


@dataclass(frozen=True)
class Rehearsal:
    """What was known on an earlier day, and what came after it.

    Args:
        cutoff: The day: the first instant of the quarter that is played again.
        demand: Forecast for that quarter made from what was known then, as `class_demand` gives it.
    """

    cutoff: pd.Timestamp
    demand: pd.DataFrame


@dataclass(frozen=True)
class Portfolio:
    """How much to commit, on which terms, and what other rules would have done; accelerators are continuous here.

    Args:
        pools: One row an accelerator and geography: accelerator, geography, mean_accelerators, peak_accelerators (95th percentile over
            paths of the peak block), interruptible_share, held_accelerators (first quarter), on_demand_usd_per_hour, spot_usd_per_hour,
            usd_per_year (of the load on demand; the order of the rows).
        terms: Each contract term alone, signed at the start of the first quarter: accelerator, geography, term, offer_id, term_months,
            usd_per_accelerator_hour, break_even_share (utilisation from which it pays against on demand), quantile_share (of load that the
            newsvendor commits to), accelerators (new, on top of those held), saving_usd_per_year, coverage_share, utilisation_share (of the
            new contract), stranded_probability (that the contract costs more than what it displaces), expected_usd, cvar_usd.
        mix: Layers of the best commitment of the first quarter: accelerator, geography, term, offer_id, from_accelerators, to_accelerators,
            accelerators, saving_usd_per_year.
        sources: Who serves the first year with that mix: accelerator, geography, source, accelerator_hours, usd.
        ladder: Purchases quarter by quarter: accelerator, geography, quarter, term, offer_id, accelerators, end_quarter.
        capacity: accelerator, geography, quarter, existing, laddered, ending, low, median, high (load of the peak block).
        ladder_cost: name (ladder, no_ladder: all that pays is bought at once, nothing), expected_usd, cvar_usd over the planned quarters,
            largest_ending_share.
        curve: Cost of the first year against the commitment: accelerator, geography, term, accelerators, expected_usd, cvar_usd,
            coverage_share, utilisation_share.
        screening: accelerator, geography, term, utilisation_share, usd_per_accelerator_year.
        duration: accelerator, geography, hours_share, accelerators.
        recommenders: accelerator, geography, name, known_until, accelerators (new), expected_usd, cvar_usd (first year), coverage_share,
            utilisation_share, stranded_probability; empty without history.
        afterwards: The same rules on what was known at the cutoff, with what they would have cost in the quarter after it: accelerator,
            geography, name, accelerators, usd, saving_share (against on demand), coverage_share, utilisation_share; empty without a
            rehearsal.
        headline, notes:
    """

    pools: pd.DataFrame
    terms: pd.DataFrame
    mix: pd.DataFrame
    sources: pd.DataFrame
    ladder: pd.DataFrame
    capacity: pd.DataFrame
    ladder_cost: pd.DataFrame
    curve: pd.DataFrame
    screening: pd.DataFrame
    duration: pd.DataFrame
    recommenders: pd.DataFrame
    afterwards: pd.DataFrame
    headline: str
    notes: tuple[str, ...]
