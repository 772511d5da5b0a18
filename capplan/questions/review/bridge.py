"""The bridge from what was planned to what was billed: each month's difference by what moved it, adding up to the cent."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from capplan.questions.review.spend_rows import USE

#: Drivers in the order in which they are taken; each is measured with those before it at what came and those after it as planned.
DRIVERS = {
    "not_billed": "planned, and in no bill",
    "ended": "workloads that ended",
    "volume": "more or less work",
    "new": "workloads that were not planned",
    "efficiency": "hours for the same work",
    "mix": "other machines",
    "coverage": "shares on contract, on demand and spot",
    "price": "prices",
    "unused": "commitments not used",
    "agreement": "spend agreements",
    "other": "other costs",
    "unmapped": "billed, and not known to the plan",
    "currency": "exchange rates",
}
#: Steps below this amount are left out of a bridge: all of them together are less than half a cent.
CENT_SHARE = 2e-4
COLUMNS = ["month", "driver", "provider", "accelerator", "contract_id", "workload", "amount"]
#: What is compared with one another: a month's pool of machines, and a month's provider.
POOL, PROVIDER = ["month", "provider", "accelerator"], ["month", "provider"]
Ratios = Mapping[tuple[pd.Timestamp, str], float]


def variance_bridge(
    planned: pd.DataFrame, actual: pd.DataFrame, work: pd.DataFrame, list_prices: Mapping[tuple[str, str], float] | None = None
) -> pd.DataFrame:
    r"""Say what moved spend from the plan to the bill.

    With hours h and prices p of a pool (provider, accelerator) and way of paying k, and r the work that came over the work planned:

    .. math::
        \text{volume} = \sum h_0 (r - 1) p_0, \quad
        \text{efficiency} = \Big(\frac{H_1}{H_2} - 1\Big) C_2, \quad
        \text{mix} = \sum_j (h_{1j} - h_{3j}) \bar p_{3j}, \quad
        \text{coverage} = \sum_{jk} (h_{1jk} - h_{1j} s_{3jk}) p_{3jk}, \quad
        \text{price} = \sum_{jk} h_{1jk} (p_{1jk} - p_{3jk})

    so that each change alone shows under its own name, whatever the order of the rows. Hours are those of accelerators of any kind: work
    that moves to a faster one needs fewer of them (efficiency) at a higher price (mix).

    Args:
        planned, actual: SPEND (see `spend_rows`) of the same months. Workloads are those of the plan; what is measured by pool is divided
            among them as their planned hours, at the work that came, use it.
        work: month, workload, planned, actual (quantities in a workload's unit; missing where nobody measured).
        list_prices: Amount of an accelerator-hour on demand by (provider, accelerator), for machines the plan did not use.

    Returns:
        DataFrame: month, driver (a key of DRIVERS), provider, accelerator, contract_id, workload (empty where none bears it), amount. All
            amounts sum to actual less planned.
    """
    prices = list_prices or {}
    # most bills, and a plan that was kept long ago, do not tell them from other costs
    tell = set.intersection(*(set(frame.loc[frame["kind"] == "agreement", "provider"]) for frame in (planned, actual)))
    planned, actual = (
        frame.assign(kind=frame["kind"].mask(frame["kind"].eq("agreement") & ~frame["provider"].isin(tell), "other"))
        for frame in (planned, actual)
    )
    never_billed = set(_charged(planned)) - set(_charged(actual))
    silent, unmapped = _charged(planned).isin(never_billed), actual["kind"] == "unmapped"
    parts = [
        _rows("not_billed", planned[silent], -planned.loc[silent, "amount"]),
        _rows("unmapped", actual[unmapped], actual.loc[unmapped, "amount_at_plan_rates"]),
        _rows("currency", actual, actual["amount"] - actual["amount_at_plan_rates"]),
        *_billed_months(_as_billed(planned[~silent], actual), actual[~unmapped], _ratios(work), prices),
    ]
    parts = [part for part in parts if len(part)]
    if not parts:
        return pd.DataFrame(columns=COLUMNS).astype({"month": "datetime64[ns]", "amount": "float64"})
    table = pd.concat(parts, ignore_index=True).groupby(COLUMNS[:-1], as_index=False, sort=True)["amount"].sum()
    return table[table["amount"].abs() > 1e-9].reset_index(drop=True)


def _ratios(work: pd.DataFrame) -> Ratios:
    """Return the work that came over the work planned by month and workload; infinite for work that was not planned."""
    known = work[work["actual"].notna() & work["planned"].notna() & ((work["planned"] > 0) | (work["actual"] > 0))]
    ratio = (known["actual"] / known["planned"].where(known["planned"] > 0)).fillna(np.inf).astype(float)
    return dict(zip(zip(known["month"], known["workload"].astype(str), strict=True), ratio, strict=True))


def _keys(frame: pd.DataFrame, names: list[str]) -> pd.MultiIndex:
    """Return what names a row's place among those it is compared with."""
    return pd.MultiIndex.from_frame(frame[names])


def _charged(spend: pd.DataFrame) -> pd.Series:
    """Name who charges for what: a provider for machines, or for all else. Rooms may be billed where machines are owned, and are not."""
    return spend["provider"] + np.where(spend["kind"].isin([*USE, "unused"]), " machines", "")


def _rows(driver: str, about: pd.DataFrame, amounts: pd.Series) -> pd.DataFrame:
    named = about.reindex(columns=["month", "provider", "accelerator", "contract_id", "workload"])
    return named.fillna(dict.fromkeys(named.columns[1:], "")).assign(driver=driver, amount=amounts.astype(float))


def _as_billed(planned: pd.DataFrame, actual: pd.DataFrame) -> pd.DataFrame:
    """Put planned rows into the detail that the bill has: where it tells no unused part, all that is held counts as used.

    A provider that tells use from waste anywhere in a month's bill tells by silence that nothing was unused: that is good news.
    """
    committed, unused = (_keys(actual[actual["kind"] == kind], POOL) for kind in ("committed", "unused"))
    pools = _keys(planned, POOL)
    silent = planned["kind"].eq("unused") & pools.isin(committed) & ~pools.isin(unused)
    told = _keys(planned, PROVIDER).isin(_keys(actual[actual["kind"] == "unused"], PROVIDER))
    return planned.assign(kind=planned["kind"].mask(silent & ~told, "committed"))


def _billed_months(
    planned: pd.DataFrame, actual: pd.DataFrame, ratios: Ratios, prices: Mapping[tuple[str, str], float]
) -> list[pd.DataFrame]:
    """Return what moved spend that is planned and billed; the steps follow the docstring of `variance_bridge`."""
    use, came = planned[planned["kind"].isin(USE)], actual[actual["kind"].isin(USE)]
    # pools of which one side tells amounts alone
    blind = _keys(came[came["hours"].isna()], POOL).append(_keys(use[use["hours"].isna() & (use["amount"] != 0)], POOL))
    found, use = _work_steps(use, ratios)
    unseen, hidden = _keys(use, POOL).isin(blind), _keys(came, POOL).isin(blind)
    found += [
        _rows("price", use[unseen], -use.loc[unseen, "amount"]),
        _rows("price", came[hidden], came.loc[hidden, "amount_at_plan_rates"]),
    ]
    use, came = use[~unseen], came[~hidden]
    total, hours = (frame.groupby("month")["hours"].sum() for frame in (use, came))
    scale = hours[hours > 0] / total[total > 0].reindex(hours[hours > 0].index)
    scales = use["month"].map(scale)
    found.append(_rows("efficiency", use, use["amount"] * (scales.fillna(0.0) - 1)))
    alone = ~came["month"].isin(scale.dropna().index)
    unplanned = {month for (month, _), ratio in ratios.items() if np.isinf(ratio)}
    for driver, chosen in (("new", alone & came["month"].isin(unplanned)), ("mix", alone & ~came["month"].isin(unplanned))):
        found.append(_rows(driver, came[chosen], came.loc[chosen, "amount_at_plan_rates"]))
    both = scales.notna()
    scaled = use[both].assign(hours=use.loc[both, "hours"] * scales[both], amount=use.loc[both, "amount"] * scales[both])
    found += _pool_steps(scaled, came[~alone], prices)
    sides = [(planned, -1.0, "amount"), (actual, 1.0, "amount_at_plan_rates")]
    found += [
        _rows(kind, frame[frame["kind"] == kind], sign * frame.loc[frame["kind"] == kind, column])
        for kind in ("unused", "agreement")
        for frame, sign, column in sides
    ]
    return [*found, *_others(planned, actual[actual["kind"] == "other"], ratios)]


def _work_steps(use: pd.DataFrame, ratios: Ratios) -> tuple[list[pd.DataFrame], pd.DataFrame]:
    """Bring planned rows to the work that came."""
    ratio = pd.Series([ratios.get(pair, 1.0) for pair in zip(use["month"], use["workload"], strict=True)], use.index, dtype=float)
    change = use["amount"] * (ratio - 1)
    ended = ratio == 0
    found = [_rows("ended", use[ended], change[ended]), _rows("volume", use[~ended], change[~ended])]
    return found, use.assign(hours=use["hours"] * ratio, amount=use["amount"] * ratio)


def _pool_steps(use: pd.DataFrame, came: pd.DataFrame, prices: Mapping[tuple[str, str], float]) -> list[pd.DataFrame]:
    """Return mix, coverage and price of pools whose hours are known on both sides, divided among workloads as they use a pool."""
    ways = [*POOL, "kind"]
    before = use.groupby(ways)[["hours", "amount"]].sum()
    after = came.groupby(ways)[["hours", "amount_at_plan_rates"]].sum().rename(columns={"amount_at_plan_rates": "amount"})
    both = before.join(after, how="outer", lsuffix="_0", rsuffix="_1").fillna(0.0).reset_index()
    pools = both.groupby(POOL)[["hours_0", "amount_0", "hours_1", "amount_1"]].transform("sum")
    listed = pd.Series(
        [prices.get(pair, np.nan) for pair in zip(both["provider"], both["accelerator"], strict=True)], both.index, dtype=float
    )
    paid = pools["amount_1"] / pools["hours_1"].where(pools["hours_1"] != 0)
    pool_price = (pools["amount_0"] / pools["hours_0"].where(pools["hours_0"] > 0)).fillna(listed).fillna(paid).fillna(0.0)
    own = both["amount_0"] / both["hours_0"].where(both["hours_0"] > 0)
    new_way = listed.where(both["kind"] == "on_demand").fillna(both["amount_1"] / both["hours_1"].where(both["hours_1"] != 0))
    price = own.fillna(new_way.where(pools["hours_0"] > 0)).fillna(pool_price)
    share = (both["hours_0"] / pools["hours_0"].where(pools["hours_0"] > 0)).fillna(0.0)
    expected = (pools["hours_1"] * share).where(pools["hours_0"] > 0, both["hours_1"])
    steps = {
        "mix": (expected - both["hours_0"]) * price.where(pools["hours_0"] > 0, pool_price),
        "coverage": (both["hours_1"] - expected) * price,
        "price": both["amount_1"] - both["hours_1"] * price,
    }
    users = use.groupby([*POOL, "workload"], as_index=False)["hours"].sum()
    users["part"] = users["hours"] / users.groupby(POOL)["hours"].transform("sum")
    found = []
    for driver, amounts in steps.items():
        spread = both[POOL].assign(total=amounts).groupby(POOL, as_index=False)["total"].sum().merge(users, on=POOL, how="left")
        found.append(_rows(driver, spread, spread["total"] * spread["part"].fillna(1.0)))
    return found


def _others(planned: pd.DataFrame, actual: pd.DataFrame, ratios: Ratios) -> list[pd.DataFrame]:
    """Return what else moved: the work of model APIs as volume, the rest by provider, as price where it is all about work."""
    found, scaled = _work_steps(planned[planned["kind"] == "other"], ratios)
    named = scaled["workload"].ne("").groupby([scaled[name] for name in PROVIDER]).all()
    known, by_work = _keys(planned, PROVIDER), named[named].index
    rows = []
    for frame, sign, column in ((scaled, -1.0, "amount"), (actual, 1.0, "amount_at_plan_rates")):
        keys = _keys(frame, PROVIDER)
        unknown = ~keys.isin(known)
        rest = ~keys.isin(by_work) & ~unknown
        rows += [
            _rows(driver, frame[chosen], sign * frame.loc[chosen, column]) for driver, chosen in (("unmapped", unknown), ("other", rest))
        ]
    users = scaled[_keys(scaled, PROVIDER).isin(by_work)].groupby([*PROVIDER, "workload"], as_index=False)["amount"].sum()
    by_provider = users.groupby(PROVIDER)
    total = by_provider["amount"].transform("sum")
    billed = actual.groupby(PROVIDER)["amount_at_plan_rates"].sum()
    came = billed.reindex(_keys(users, PROVIDER)).fillna(0.0).to_numpy()
    part = (users["amount"] / total.where(total != 0)).fillna(1 / by_provider["workload"].transform("size"))
    return [*found, *rows, _rows("price", users, (came - total) * part)]
