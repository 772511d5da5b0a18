"""Tables that only the purchase plan reads: payment schedules of offers, prices of moved data, and states of prices and deliveries."""

from __future__ import annotations

from capplan.inputs.columns import Table, column
from capplan.units import QUARTER_PATTERN

CROSSINGS = ["same_geography", "other_geography", "other_provider"]


class OfferPayments(Table):
    """One payment of an offer that is paid by a schedule; with `upfront_share` the shares of an offer sum to 1."""

    offer_id: str = column("Offer it belongs to.", refers="offers.offer_id", key=True)
    months_after_start: float = column(
        "When it is due, counted from the first day of service; not later than the contract's end.", unit="months", key=True, ge=0
    )
    share: float = column("Share of the contract's whole price.", gt=0, le=1)


class EgressPrices(Table):
    """What a provider charges for data that leaves one of its regions."""

    provider: str = column("Provider that the data leaves; own for machines one owns.", key=True)
    crossing: str = column(
        "How far it goes: to another region of the same geography, to another geography, or to another provider.", key=True, isin=CROSSINGS
    )
    usd_per_gib: float = column("Price of a GiB.", unit="USD/GiB", ge=0)
    source_id: str = column("Source of the price.", optional=True, refers="sources.source_id")


class PriceStates(Table):
    """One state that prices by the hour may be in; the plan is made for all of them at once."""

    state: str = column("Name of the state.", key=True)
    probability: float = column("Its probability; the states' sum is 1.", gt=0, le=1)
    on_demand_factor: float = column("Multiplies prices on demand.", optional=True, default=1.0, gt=0)
    spot_factor: float = column("Multiplies prices of spot.", optional=True, default=1.0, gt=0)
    from_quarter: str = column("First quarter in which it shows; empty = from the first planned one.", optional=True, str_matches=QUARTER_PATTERN)


class DeliveryStates(Table):
    """One state of supply: how late machines come that are ordered."""

    state: str = column("Name of the state.", key=True)
    probability: float = column("Its probability, equal in all rows of a state; the states' sum is 1.", gt=0, le=1)
    provider: str = column("Provider whose deliveries are late; any = all.", optional=True, default="any", key=True)
    accelerator: str = column("Accelerator whose deliveries are late; any = all.", optional=True, default="any", key=True)
    late_days: float = column(
        "Days by which deliveries come late; empty = the offer's 90th percentile of the lead time less its median.", unit="days", optional=True, ge=0
    )
