"""The sheet Demand: work, service and capacity by quarter."""

from typing import Any

from capplan.outputs.views.plan_tables import at_moments
from capplan.outputs.workbook.assumptions import Draft
from capplan.outputs.workbook.sheet import Formula, Sheet, address, stacked_chart
from capplan.text import words

QUANTILES = {0.1: "P10", 0.5: "P50", 0.9: "P90"}
#: Work and accelerators are whole where they differ by less than this share.
CLOSE = 1e-6


def units_of(draft: Draft) -> dict[str, str]:
    """Return the unit of work by workload and by class."""
    table = draft.book.get("workloads")
    label = table["work_class"].fillna(table["workload"])
    return {**dict(zip(label, table["unit"], strict=True)), **dict(zip(table["workload"], table["unit"], strict=True))}


def write_demand(draft: Draft) -> None:
    """Write demand by quarter, how it is served, and the capacity that is there."""
    sheet, quarters, plan = draft.sheets["Demand"], draft.quarters, draft.plan
    sheet.title("Demand, service and capacity", plan.forecast.headline, across=10)
    count = len(quarters)
    styles = ["text", "text", "text", "text"] + ["number"] * count
    units = units_of(draft)
    head = sheet.row + 1
    sheet.section("Work by quarter")
    sheet.head(["Workload", "Region", "Unit", "Quantile", *quarters], styles)
    wide = plan.forecast.quantiles[plan.forecast.quantiles["quantile"].isin(QUANTILES)]
    wide = wide.pivot_table(index=["workload", "region", "quantile"], columns="quarter", values="quantity", aggfunc="sum").reindex(
        columns=quarters
    )
    for (workload, region, quantile), values in wide.iterrows():
        sheet.rows([[str(workload), str(region), words(units.get(str(workload), "")), QUANTILES[quantile], *values]], styles)
    sheet.row += 1
    _write_service(draft, sheet, styles, units)
    _write_capacity(draft, sheet, styles)
    sheet.finish(head, 2)


def _write_service(draft: Draft, sheet: Sheet, styles: list[str], units: dict[str, str]) -> None:
    """Write expected work demanded, served and missing; the imputed cost of what is missing is no money."""
    quarters, purchases = draft.quarters, draft.plan.purchases
    weight = purchases.costs.drop_duplicates("path").set_index("path")["probability"]
    service = purchases.service
    expected = service[["demanded", "served", "shortfall"]].mul(service["path"].map(weight), axis=0)
    table = expected.groupby([service["class"], service["region"], service["quarter"]]).sum()
    sheet.section("Service: expected work of each class")
    sheet.head(["Class", "Region", "Unit", "Measure", *quarters], styles)
    blocks: dict[str, list[str]] = {"demanded": [], "served": [], "shortfall": []}
    for name, region in sorted(set(zip(service["class"], service["region"], strict=True))):
        rows = table.loc[(name, region)].reindex(quarters, fill_value=0.0)
        first = sheet.row
        for measure in ("demanded", "served", "shortfall"):
            blocks[measure].append(sheet.span(sheet.row, sheet.row, 4, 3 + len(quarters)))
            sheet.rows([[str(name), str(region), words(units.get(str(name), "")), measure.capitalize(), *rows[measure]]], styles)
        shares: list[Any] = []
        for place, quarter in enumerate(quarters):
            wanted, done = address(first, 4 + place, ""), address(first + 1, 4 + place, "")
            demanded = float(rows.loc[quarter, "demanded"])
            shares.append(
                Formula(f"=IF({wanted}>0,{done}/{wanted},1)", float(rows.loc[quarter, "served"]) / demanded if demanded > 0 else 1.0)
            )
        sheet.rows([[str(name), str(region), "", "Served share", *shares]], styles[:4] + ["share"] * len(quarters))
    total = {name: "+".join(f"SUM({span})" for span in spans) for name, spans in blocks.items()}
    gap = abs(float(expected["demanded"].sum() - expected["served"].sum() - expected["shortfall"].sum()))
    draft.check(
        "Demand: served + missing = demanded",
        f"=ABS(({total['demanded']})-({total['served']})-({total['shortfall']}))<={CLOSE}*({total['demanded']})",
        gap <= CLOSE * float(expected["demanded"].sum()),
    )
    costs = purchases.costs[purchases.costs["component"] == "shortfall"]
    imputed = (costs["usd"] * costs["probability"]).groupby(costs["quarter"]).sum().reindex(quarters, fill_value=0.0)
    sheet.rows([["Missing work, imputed cost", "all", "USD, no money", "Expected", *imputed]], [*styles[:4], *["usd"] * len(quarters)])
    sheet.note("The imputed cost weighs missing work in the decision; nobody pays it, and it is in no sheet of money.", 8)
    sheet.row += 1


def _write_capacity(draft: Draft, sheet: Sheet, styles: list[str]) -> None:
    """Write the accelerators that are there, and draw them."""
    quarters, capacity = draft.quarters, draft.plan.purchases.capacity
    sheet.section("Capacity: accelerators on contract or owned, mean of each quarter")
    head = sheet.row
    sheet.head(["Source", "Provider", "Accelerator", "Region", *quarters], styles)
    keys = ["source", "provider", "accelerator", "region"]
    moments = at_moments(capacity, keys)
    capacity = capacity.assign(accelerators=capacity["accelerators"] * capacity["share"])
    table = capacity.pivot_table(index=keys, columns="quarter", values="accelerators", aggfunc="sum", fill_value=0.0).reindex(
        columns=quarters, fill_value=0.0
    )
    spans: dict[str, tuple[int, int]] = {}
    for source in ("existing", "bought"):
        part = table[table.index.get_level_values("source") == source]
        first = sheet.row
        for labels, values in part.iterrows():
            sheet.rows([[words(source), *(str(label) for label in tuple(labels)[1:]), *values]], styles)
        spans[source] = (first, sheet.row - 1)
    sums = {source: table[table.index.get_level_values("source") == source].sum() for source in spans}
    last = len(quarters) + 3
    totals = {}
    for source, (first, end) in spans.items():
        cells: list[Any] = []
        for place, quarter in enumerate(quarters):
            block = f"{address(first, 4 + place, '')}:{address(end, 4 + place, '')}"
            cells.append(Formula(f"=SUM({block})", float(sums[source][quarter])) if end >= first else 0.0)
        totals[source] = sheet.row
        sheet.rows([[f"All {source}", "", "", "", *cells]], ["text+total"] * 4 + ["number+total"] * len(quarters))
    whole = capacity.groupby("quarter")["accelerators"].sum().reindex(quarters, fill_value=0.0)
    at = sheet.row
    sheet.rows([["Total", "", "", "", *whole]], ["text+total"] * 4 + ["number+total"] * len(quarters))
    parts = [sheet.span(totals[source], totals[source], 4, last) for source in ("existing", "bought")]
    equal = float((whole - sums["existing"] - sums["bought"]).abs().max()) < CLOSE * max(1.0, float(whole.max()))
    scale = f"{CLOSE}*MAX(1,{sheet.span(at, at, 4, last)})"
    draft.check(
        "Capacity: existing + bought = total",
        f"=SUMPRODUCT(ABS({sheet.span(at, at, 4, last)}-{parts[0]}-{parts[1]}))<={scale}",
        bool(equal),
    )
    least = moments.groupby(["quarter", "begin"])["accelerators"].sum().groupby("quarter").min().reindex(quarters, fill_value=0.0)
    sheet.rows([["Least at any moment of the quarter", "", "", "", *least]], ["text"] * 4 + ["number"] * len(quarters))
    sheet.row += 1
    chart = stacked_chart(
        draft.workbook, sheet, "Accelerators on contract or owned", head, [totals["existing"], totals["bought"]], (4, last), "accelerators"
    )
    sheet.sheet.insert_chart(sheet.row, 0, chart)
