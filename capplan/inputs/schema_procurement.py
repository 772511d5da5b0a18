"""Tables that only the purchase plan reads: payment schedules of offers."""

from __future__ import annotations

from capplan.inputs.columns import Table, column


class OfferPayments(Table):
    """One payment of an offer that is paid by a schedule; with `upfront_share` the shares of an offer sum to 1."""

    offer_id: str = column("Offer it belongs to.", refers="offers.offer_id", key=True)
    months_after_start: float = column(
        "When it is due, counted from the first day of service; not later than the contract's end.", unit="months", key=True, ge=0
    )
    share: float = column("Share of the contract's whole price.", gt=0, le=1)
