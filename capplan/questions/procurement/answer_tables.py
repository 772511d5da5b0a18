"""The tables of an answer: what is bought, what capacity that makes, what runs where, what it costs, and how well work is served."""

import numpy as np
import pandas as pd
from scipy import sparse

from capplan.questions.procurement.program.second_stage import Recourse, hours_by_technology
from capplan.questions.procurement.supply.choices import Choices
from capplan.questions.procurement.supply.departures import DEPARTURE
from capplan.questions.procurement.supply.market import Market, held
from capplan.questions.procurement.work.load import Work
from capplan.questions.procurement.work.spans import lay_out_spans
from capplan.questions.procurement.work.states import States
from capplan.records import records
from capplan.units import ROUNDING, quarter_of

#: Sources by the hour, and the one that nobody invoices.
USED = ("committed", "on_demand", "spot", "api")
CAPACITY_ROLES = ("full", "reserve")
#: Components of cost that follow use.
BY_HOUR = ("on_demand", "spot", "api", "shortfall")


def purchase_table(choices: Choices, lots: np.ndarray) -> pd.DataFrame:
    """List what is bought or renewed (not what is left, see `explain.leaving`), with its whole contract value and the day to sign.

    Args:
        lots (n,): Lots of each.
    """
    chosen = np.flatnonzero((lots > 0) & (choices.table["kind"] != DEPARTURE).to_numpy())
    part = choices.table.iloc[chosen].reset_index(drop=True)
    count = lots[chosen]
    upfront = choices.upfront_usd[chosen].sum(axis=1) * count
    recurring = choices.running_usd[chosen]
    billed = recurring.sum(axis=1)
    reserve = (part["role"] == "reserve").to_numpy()
    hours = (choices.covered * choices.timeline.hours)[chosen].sum(axis=1)
    billed[reserve] = (part["usd_per_hour"] * part["lot_machines"]).to_numpy()[reserve] * hours[reserve]
    last = [quarter_of(end - pd.Timedelta(seconds=1)) for end in part["end"]]
    capacity = np.isin(part["role"], CAPACITY_ROLES) | (part["lot_reserve"] > 0)
    beyond = (recurring[:, choices.timeline.planned :].sum(axis=1)) * count
    result = pd.DataFrame(
        {
            "offer_id": part["offer_id"],
            "kind": part["kind"],
            "sku": part["sku"],
            "provider": part["provider"],
            "accelerator": part["accelerator"],
            "region": part["region"],
            "geography": part["geography"],
            "term": part["term"],
            "gives": np.where(capacity, np.where(part["role"] == "reserve", "capacity", "capacity and price"), "price"),
            "quarter": part["quarter"],
            "end_quarter": last,
            "starts": part["start"],
            "ends": part["end"] - pd.Timedelta(days=1),
            "lots": np.round(count).astype("int64"),
            "machines": count * part["lot_machines"],
            "accelerators": count * part["lot_accelerators"],
            "hours": hours,
            "usd_per_hour": np.where(
                part["term"] == "owned", billed / np.maximum(hours * part["lot_machines"], 1e-12), part["usd_per_hour"]
            ),
            "upfront_usd": upfront,
            "usd": upfront + billed * count,
            "bridge_usd": choices.bridge_usd[chosen] * count,
            "beyond_horizon_usd": beyond,
            "requoted": part["requoted"],
            "submit_by": part["submit_by"],
            "sign_by": part["sign_by"],
            "signed_on": part["signed_on"],
            "late": part["late"],
            "firm": part["firm"],
        }
    )
    return result.sort_values(["sign_by", "quarter", "offer_id"]).reset_index(drop=True)


def capacity_table(choices: Choices, market: Market, lots: np.ndarray) -> pd.DataFrame:
    """List the accelerators that are surely there, by where they come from, in each planned quarter or part of it.

    Returns:
        DataFrame: Columns as in `answer.Purchases.capacity`; machines that are given back are no longer there.
    """
    chosen = np.flatnonzero(lots > 0)
    bought, timeline, holdings = choices.table.iloc[chosen], choices.timeline, market.holdings
    spans = lay_out_spans(timeline, [holdings["start"], holdings["end"], bought["start"], bought["end"]], 0)
    size = lots[chosen] * bought["lot_accelerators"].to_numpy(float)
    source = np.where(bought["kind"] == DEPARTURE, "existing", "bought")
    about = pd.DataFrame({"quarter": np.array(timeline.horizon)[spans.quarter], "starts": spans.starts, "share": spans.share})
    about["ends"] = pd.DatetimeIndex(spans.end.astype("datetime64[ns]")) - pd.Timedelta(days=1)
    frames = []
    for origin, frame, amounts in (
        (np.full(len(holdings), "existing"), holdings, held(market, spans)),
        (source, bought, spans.covered(bought["start"], bought["end"]) * size[:, None]),
    ):
        sure = np.isin(frame["role"], CAPACITY_ROLES) | (frame["lot_reserve"].to_numpy(float) > 0 if "lot_reserve" in frame else False)
        where = frame[["provider", "accelerator", "place", "term"]].rename(columns={"place": "region"}).assign(source=origin)
        rows, parts = np.nonzero((amounts != 0) & sure[:, None])
        own = [about.iloc[parts].reset_index(drop=True), where.iloc[rows].reset_index(drop=True)]
        frames.append(pd.concat(own, axis=1).assign(accelerators=amounts[rows, parts]))
    keys = ["quarter", "starts", "ends", "share", "provider", "accelerator", "region", "source", "term"]
    table = pd.concat([frame for frame in frames if len(frame)] or frames[:1]).groupby(keys, as_index=False)["accelerators"].sum()
    return _whole_quarters(table[table["accelerators"] > ROUNDING], keys)


def _whole_quarters(table: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Join the parts of a quarter in which what comes from somewhere stays the same."""
    same = [name for name in keys if name not in ("starts", "ends", "share")]
    table = table.sort_values([*same, "starts"], ignore_index=True)
    before = table.groupby(same)[["accelerators", "ends"]].shift()
    new = (table["accelerators"] != before["accelerators"]) | (table["starts"] != before["ends"] + pd.Timedelta(days=1))
    joined = table.assign(run=new.cumsum()).groupby([*same, "run"], as_index=False)
    found = joined.agg(starts=("starts", "min"), ends=("ends", "max"), share=("share", "sum"), accelerators=("accelerators", "first"))
    return found[[*keys, "accelerators"]].sort_values(keys, ignore_index=True)


def path_table(work: Work, states: States) -> pd.DataFrame:
    """List the paths of the plan: path, probability, demand_path, price_state, delivery_state (both empty where a book states none)."""
    about = states.table[["price_state", "delivery_state"]].iloc[work.paths["state"]].reset_index(drop=True)
    return pd.concat([work.paths[["path", "probability", "demand_path"]], about], axis=1)


def charged(recourse: Recourse) -> np.ndarray:
    """Return the price at which each recourse column is charged, (technologies, r); what agreements plan is charged as used."""
    return np.where((recourse.columns["source"] == "agreement_draw").to_numpy(), recourse.spend, recourse.usd)


def expected_use(work: Work, recourse: Recourse, decisions: sparse.csr_matrix, planned: int) -> tuple[np.ndarray, np.ndarray]:
    """Return expected hours and dollars of each recourse column in each planned quarter, both (planned, r)."""
    hours = hours_by_technology(work, recourse, decisions)
    return recourse.by_stage(hours)[:planned], recourse.by_stage(hours * charged(recourse))[:planned]


def served_once(load: np.ndarray, recourse: Recourse, decisions: sparse.csr_matrix) -> sparse.csr_matrix:
    """Return what is done at each point without what is committed and serves beyond the load: a tie at price zero, and no use.

    Args:
        load (points, D): Load of each planned point.
        decisions (P, r): What the dispatch does; planned points come first.
    """
    columns, row = recourse.columns, recourse.columns["row"].to_numpy(int)
    serves = (row >= 0) & np.isin(columns["source"], [*USED, "shortfall"])
    own = serves & (columns["source"] == "committed").to_numpy()
    work = np.where(columns["source"] == "shortfall", 1.0, columns["work"].to_numpy(float))
    shape = (len(columns), load.shape[1])
    given, free = (
        (decisions[: len(load)] @ sparse.csr_matrix((work[part], (np.flatnonzero(part), row[part])), shape=shape)).toarray()
        for part in (serves, own)
    )
    share = 1 - np.divide(np.clip(given - load, 0.0, free), free, out=np.zeros_like(free), where=free > 0)
    cells = decisions.tocoo()
    trimmed = own[cells.col] & (cells.row < len(load))
    value = cells.data.copy()
    value[trimmed] *= share[cells.row[trimmed], row[cells.col[trimmed]]]
    return sparse.csr_matrix((value, (cells.row, cells.col)), shape=decisions.shape)


def _components(recourse: Recourse) -> dict[str, np.ndarray]:
    """Split the price of each recourse column under each technology, (technologies, r), by component; egress and late deliveries too."""
    component = (
        recourse.columns["source"]
        .replace({"on_demand_bill": "on_demand", "discount": "on_demand", "agreement_draw": "on_demand"})
        .to_numpy()
    )
    egress = recourse.columns["egress"].to_numpy(float)
    price = charged(recourse) - egress
    names = [*BY_HOUR, *(["late_delivery"] if "late_delivery" in component else [])]
    found = {name: np.where(component == name, price, 0.0) for name in names}
    return found | ({"egress": np.tile(egress, (len(price), 1))} if egress.any() else {})


def cost_table(
    work: Work, market: Market, choices: Choices, recourse: Recourse, decisions: sparse.csr_matrix, lots: np.ndarray
) -> pd.DataFrame:
    """Cost each path in each planned quarter by component, undiscounted: contracts as expensed, usage as it falls, imputed shortfall.

    Machines bought are expensed with their power and space in full; what of that is paid for in any case comes off again (power_paid_for).
    """
    timeline = choices.timeline
    components = _components(recourse)
    planned = np.flatnonzero(recourse.planned)
    usd = np.zeros((len(planned), len(components)))
    for t in np.unique(recourse.technology[planned]).tolist():
        own = np.flatnonzero(recourse.technology[planned] == t)
        usd[own] = decisions[planned[own]] @ np.stack([price[t] for price in components.values()], axis=1)
    usd *= work.points["hours"].to_numpy()[:, None]
    paths, count = len(work.paths), timeline.planned
    cell = work.points["path"].to_numpy() * count + work.points["quarter"].to_numpy()
    totals = np.stack([np.bincount(cell, weights=usd[:, k], minlength=paths * count) for k in range(len(components))], axis=1)
    committed = (choices.expense_usd[:, :count] * lots[:, None]).sum(axis=0)
    running = (
        timeline.covered(market.holdings["start"], market.holdings["end"])[:, :count] if len(market.holdings) else np.zeros((0, count))
    )
    existing = (running * market.holdings["usd_per_hour"].to_numpy(float)[:, None]).sum(axis=0) * timeline.hours[:count]
    saved = -choices.paid_power.saved_usd(lots, count)
    power = {"power_paid_for": saved} if saved.any() else {}
    fixed = np.tile(np.stack([committed, existing, *power.values()], axis=1), (paths, 1))
    names = ["committed", "existing", *power, *components]
    wide = pd.DataFrame(np.hstack([fixed, totals]), columns=names)
    wide.insert(0, "path", np.repeat(work.paths["path"].to_numpy(), count))
    wide.insert(1, "probability", np.repeat(work.paths["probability"].to_numpy(), count))
    wide.insert(2, "quarter", np.tile(np.array(timeline.horizon), paths))
    long = wide.melt(id_vars=["path", "probability", "quarter"], value_vars=names, var_name="component", value_name="usd")
    long["usd"] = long["usd"].where(long["usd"].abs() > ROUNDING, 0.0)
    order = {name: step for step, name in enumerate(names)}
    return long.sort_values(["path", "quarter", "component"], key=lambda s: s.map(order) if s.name == "component" else s).reset_index(
        drop=True
    )


def service_table(work: Work, choices: Choices, recourse: Recourse, decisions: sparse.csr_matrix) -> pd.DataFrame:
    """Add up work demanded, served and missing on each path by class, region and quarter, in the class's unit."""
    rows, planned = len(work.rows), np.flatnonzero(recourse.planned)
    columns = recourse.columns
    place = np.maximum(columns["row"].to_numpy(int), 0)
    short = (columns["source"] == "shortfall").to_numpy()
    pick = sparse.csr_matrix((np.where(short, 1.0, 0.0), (np.arange(len(columns)), place)), shape=(len(columns), rows))
    hours = work.points["hours"].to_numpy()[:, None]
    missing = (decisions[planned] @ pick).toarray() * hours
    wanted = work.load * hours
    # What the dispatch serves beyond the load (a tie at price zero) is no service.
    missing = np.minimum(missing, wanted)
    cell = work.points["path"].to_numpy() * choices.timeline.planned + work.points["quarter"].to_numpy()
    size = len(work.paths) * choices.timeline.planned
    frames = []
    for d, row in enumerate(records(work.rows)):
        demanded = np.bincount(cell, weights=wanted[:, d], minlength=size) * row["fastest"]
        shortfall = np.bincount(cell, weights=missing[:, d], minlength=size) * row["fastest"]
        served = demanded - shortfall
        frame = pd.DataFrame(
            {"path": np.repeat(work.paths["path"].to_numpy(), choices.timeline.planned), "class": row["class"], "region": row["region"]}
        )
        frame["quarter"] = np.tile(np.array(choices.timeline.horizon), len(work.paths))
        share = np.divide(served, demanded, out=np.ones(size), where=demanded > 0)
        frames.append(frame.assign(demanded=demanded, served=served, shortfall=shortfall, served_share=share))
    return pd.concat(frames).sort_values(["path", "quarter", "class", "region"], kind="stable").reset_index(drop=True)


def dispatch_table(work: Work, market: Market, choices: Choices, recourse: Recourse, decisions: sparse.csr_matrix) -> pd.DataFrame:
    """List expected accelerator-hours, work and spend by quarter, class and source; discounts are spread over the use they pay for.

    Data that leaves its home is a source of its own, egress, with neither hours nor work, billed by the provider it leaves. The load of
    `work` is that after work was put off.
    """
    hours, usd = expected_use(work, recourse, served_once(work.load, recourse, decisions), choices.timeline.planned)
    columns = recourse.columns
    pool, row = columns["pool"].to_numpy(int), columns["row"].to_numpy(int)
    moved = hours * columns["egress"].to_numpy(float)
    usd = usd - moved
    bill = columns["source"].isin(["on_demand_bill", "agreement_draw"]).to_numpy()
    rented = (columns["source"] == "on_demand").to_numpy()
    for p in np.unique(pool[bill]):
        use = rented & (pool == p)
        total = hours[:, use].sum(axis=1, keepdims=True)
        share = np.divide(hours[:, use], total, out=np.zeros_like(hours[:, use]), where=total > 0)
        usd[:, use] = share * usd[:, bill & (pool == p)].sum(axis=1, keepdims=True)
    frames = []
    for j in np.flatnonzero((row >= 0) & np.isin(columns["source"], [*USED, "shortfall"])):
        about, source = work.rows.loc[row[j]], columns["source"][j]
        somewhere = market.pools.loc[pool[j]] if pool[j] >= 0 else None
        if moved[:, j].any():
            frames.append(
                pd.DataFrame(
                    {
                        "quarter": list(choices.timeline.horizon),
                        "class": about["class"],
                        "region": about["region"],
                        "source": "egress",
                        "provider": about["home_provider"],
                        "accelerator": "",
                        "expected_accelerator_hours": 0.0,
                        "expected_work": 0.0,
                        "expected_usd": moved[:, j],
                    }
                )
            )
        done = hours[:, j] * (1.0 if source == "shortfall" else columns["work"][j]) * about["fastest"]
        frames.append(
            pd.DataFrame(
                {
                    "quarter": list(choices.timeline.horizon),
                    "class": about["class"],
                    "region": about["region"],
                    "source": source,
                    "provider": "" if somewhere is None else somewhere["provider"],
                    "accelerator": "" if somewhere is None else somewhere["accelerator"],
                    "expected_accelerator_hours": hours[:, j] if somewhere is not None else 0.0,
                    "expected_work": done,
                    "expected_usd": usd[:, j],
                }
            )
        )
    keys = ["quarter", "class", "region", "source", "provider", "accelerator"]
    table = pd.concat(frames).groupby(keys, as_index=False).sum()
    used = table["expected_accelerator_hours"].where(table["accelerator"] != "", table["expected_work"])
    return table[(used > ROUNDING) | (table["expected_usd"].abs() > ROUNDING)].reset_index(drop=True)
