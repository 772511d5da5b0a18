"""The sheet Demand: work, service and capacity by quarter."""

from capplan.outputs.views.plan_tables import at_moments
from capplan.outputs.workbook.assumptions import Draft
from capplan.outputs.workbook.columns import by_quarter
from capplan.outputs.workbook.sheet import Formula, Sheet, stacked_chart
from capplan.text import words

QUANTILES = {0.1: "P10", 0.5: "P50", 0.9: "P90"}
#: Work and accelerators are whole where they differ by less than this share.
CLOSE = 1e-6
#: Labels of the tables, before their quarters: name and heading.
WORK = (("workload", "Workload"), ("region", "Region"), ("unit", "Unit"), ("quantile", "Quantile"))
SERVICE = (("work_class", "Class"), ("region", "Region"), ("unit", "Unit"), ("measure", "Measure"))


def units_of(draft: Draft) -> dict[str, str]:
    """Return the unit of work by workload and by class."""
    table = draft.book.get("workloads")
    label = table["work_class"].fillna(table["workload"])
    return {**dict(zip(label, table["unit"], strict=True)), **dict(zip(table["workload"], table["unit"], strict=True))}


def write_demand(draft: Draft) -> None:
    """Write demand by quarter, how it is served, and the capacity that is there."""
    sheet, quarters, plan = draft.sheets["Demand"], draft.quarters, draft.plan
    sheet.title("Demand, service and capacity", plan.forecast.headline, across=10)
    units, head, columns = units_of(draft), sheet.row + 1, by_quarter(WORK, quarters, "number")
    sheet.section("Work by quarter")
    columns.head(sheet)
    wide = plan.forecast.quantiles[plan.forecast.quantiles["quantile"].isin(QUANTILES)]
    wide = wide.pivot_table(index=["workload", "region", "quantile"], columns="quarter", values="quantity", aggfunc="sum").reindex(
        columns=quarters
    )
    for (workload, region, quantile), values in wide.iterrows():
        unit = words(units.get(str(workload), ""))
        columns.write(sheet, workload=str(workload), region=str(region), unit=unit, quantile=QUANTILES[quantile], **values)
    sheet.row += 1
    _write_service(draft, sheet, units)
    _write_capacity(draft, sheet)
    sheet.finish(head, 2)


def _write_service(draft: Draft, sheet: Sheet, units: dict[str, str]) -> None:
    """Write expected work demanded, served and missing; the imputed cost of what is missing is no money."""
    quarters, purchases = draft.quarters, draft.plan.purchases
    weight = purchases.costs.drop_duplicates("path").set_index("path")["probability"]
    service = purchases.service
    expected = service[["demanded", "served", "shortfall"]].mul(service["path"].map(weight), axis=0)
    table = expected.groupby([service["class"], service["region"], service["quarter"]]).sum()
    sheet.section("Service: expected work of each class")
    columns, usd, ratios = (by_quarter(SERVICE, quarters, style) for style in ("number", "usd", "share"))
    columns.head(sheet)
    blocks: dict[str, list[str]] = {"demanded": [], "served": [], "shortfall": []}
    for name, region in sorted(set(zip(service["class"], service["region"], strict=True))):
        rows = table.loc[(name, region)].reindex(quarters, fill_value=0.0)
        about = {"work_class": str(name), "region": str(region)}
        wanted, done = columns.here(sheet.row), columns.here(sheet.row + 1)
        for measure in ("demanded", "served", "shortfall"):
            blocks[measure].append(columns.line(sheet, sheet.row, quarters))
            unit = words(units.get(str(name), ""))
            columns.write(sheet, **about, unit=unit, measure=measure.capitalize(), **rows[measure])
        shares = {}
        for quarter in quarters:
            demanded = float(rows.loc[quarter, "demanded"])
            share = float(rows.loc[quarter, "served"]) / demanded if demanded > 0 else 1.0
            shares[quarter] = Formula(f"=IF({wanted[quarter]}>0,{done[quarter]}/{wanted[quarter]},1)", share)
        ratios.write(sheet, **about, unit="", measure="Served share", **shares)
    total = {name: "+".join(f"SUM({span})" for span in spans) for name, spans in blocks.items()}
    gap = abs(float(expected["demanded"].sum() - expected["served"].sum() - expected["shortfall"].sum()))
    draft.check(
        "Demand: served + missing = demanded",
        f"=ABS(({total['demanded']})-({total['served']})-({total['shortfall']}))<={CLOSE}*({total['demanded']})",
        gap <= CLOSE * float(expected["demanded"].sum()),
    )
    costs = purchases.costs[purchases.costs["component"] == "shortfall"]
    imputed = (costs["usd"] * costs["probability"]).groupby(costs["quarter"]).sum().reindex(quarters, fill_value=0.0)
    usd.write(sheet, work_class="Missing work, imputed cost", region="all", unit="USD, no money", measure="Expected", **imputed)
    sheet.note("The imputed cost weighs missing work in the decision; nobody pays it, and it is in no sheet of money.", 8)
    sheet.row += 1


def _write_capacity(draft: Draft, sheet: Sheet) -> None:
    """Write the accelerators that are there, and draw them."""
    quarters, capacity = draft.quarters, draft.plan.purchases.capacity
    sheet.section("Capacity: accelerators on contract or owned, mean of each quarter")
    keys = ["source", "provider", "accelerator", "region"]
    head, columns = sheet.row, by_quarter([(key, key.capitalize()) for key in keys], quarters, "number")
    columns.head(sheet)
    none = dict.fromkeys(keys[1:], "")
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
            columns.write(sheet, source=words(source), **dict(zip(keys[1:], map(str, tuple(labels)[1:]), strict=True)), **values)
        spans[source] = (first, sheet.row - 1)
    sums = {source: table[table.index.get_level_values("source") == source].sum() for source in spans}
    totals = {}
    for source, (first, end) in spans.items():
        cells = {
            quarter: Formula(f"=SUM({columns.block(quarter, first, end, '')})", float(sums[source][quarter])) if end >= first else 0.0
            for quarter in quarters
        }
        totals[source] = sheet.row
        columns.write_total(sheet, source=f"All {source}", **none, **cells)
    whole = capacity.groupby("quarter")["accelerators"].sum().reindex(quarters, fill_value=0.0)
    at = sheet.row
    columns.write_total(sheet, source="Total", **none, **whole)
    line, *parts = (columns.line(sheet, row, quarters) for row in (at, totals["existing"], totals["bought"]))
    equal = float((whole - sums["existing"] - sums["bought"]).abs().max()) < CLOSE * max(1.0, float(whole.max()))
    scale = f"{CLOSE}*MAX(1,{line})"
    draft.check("Capacity: existing + bought = total", f"=SUMPRODUCT(ABS({line}-{parts[0]}-{parts[1]}))<={scale}", bool(equal))
    least = moments.groupby(["quarter", "begin"])["accelerators"].sum().groupby("quarter").min().reindex(quarters, fill_value=0.0)
    columns.write(sheet, source="Least at any moment of the quarter", **none, **least)
    sheet.row += 1
    across = columns.at(quarters[0]), columns.at(quarters[-1])
    chart = stacked_chart(
        draft.workbook, sheet, "Accelerators on contract or owned", head, [totals["existing"], totals["bought"]], across, "accelerators"
    )
    sheet.sheet.insert_chart(sheet.row, 0, chart)
