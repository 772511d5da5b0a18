"""The ledger against the last bill: by the commitment's name, else by machine and dates; and why a line does not tie."""

from __future__ import annotations

import pandas as pd
import pytest

from capplan.book.assumptions.ledger import LedgerAssumptions
from capplan.book.book import load_book
from capplan.ingest import ingest
from capplan.questions.ledger.build_ledger import LedgerTables, build_ledger
from tests.ingest.test_ingest_bills import bill

PLAN = "name: t\nas_of: 2026-07-05\nfirst_quarter: 2026Q4\nhorizon_quarters: 2\n"
CONTRACTS = (
    "commitment_id,sku,region,term,machines,usd_per_hour,start,end,discounts\n"
    "ri-1,p5.48xlarge,us-east-1,reserved_3y,8,30,2025-03-01,2028-02-29,units\n"
)
JUNE = {
    "BillingPeriodStart": "2026-06-01T00:00:00Z",
    "ChargePeriodStart": "2026-06-01T00:00:00Z",
    "ChargePeriodEnd": "2026-07-01T00:00:00Z",
    "SkuId": "HZC9FAP4F9Y8JW67",
}
PRICE = 8 * 30 * 720


def reconciled(tmp_path, *rows, contracts=CONTRACTS, plan=PLAN):
    (tmp_path / "book.yaml").write_text(plan)
    (tmp_path / "commitments.csv").write_text(contracts)
    folder = tmp_path / "bills"
    folder.mkdir()
    path = bill(folder, *rows)
    frame = pd.read_csv(path, dtype=str)
    frame["CommitmentDiscountId"] = [row.get("CommitmentDiscountId") for row in rows]
    frame.to_csv(path, index=False)
    ingest("focus", path, tmp_path)
    book = load_book(tmp_path)
    names = ("commitments", "skus", "workloads", "billing")
    ledger = build_ledger(book.scenario.section(LedgerAssumptions), LedgerTables(**{name: book.get(name) for name in names}))
    return ledger.reconciliation.set_index(["view", "line"]), ledger.notes


def month(used: float, **more) -> list[dict]:
    """Return a bill of a month: the fee, and what was used and not used of it."""
    parts = [
        {"CommitmentDiscountStatus": "Used", "EffectiveCost": used},
        {"CommitmentDiscountStatus": "Unused", "EffectiveCost": PRICE - used},
    ]
    fee = {**JUNE, **more, "ChargeCategory": "Purchase", "BilledCost": PRICE, "EffectiveCost": 0, "SkuMeter": "HeavyUsage:p5.48xlarge"}
    return [fee, *({**JUNE, **more, "BilledCost": 0, "ConsumedQuantity": 5760, **part} for part in parts if part["EffectiveCost"])]


def test_a_contract_ties_by_its_machine_where_the_bill_has_a_product_code(tmp_path):
    table, notes = reconciled(tmp_path, *month(PRICE))
    for view in ("billed", "p_and_l"):
        row = table.loc[(view, "p5.48xlarge under contract")]
        assert (row.ledger_usd, row.bill_usd, row.ties) == (PRICE, PRICE, True)
    assert not table.index.get_level_values("line").str.contains("by use").any()
    assert any("Bill of 2026-06" in note and "tie to the ledger" in note for note in notes)


def test_the_commitments_name_comes_first_and_the_unused_part_is_told(tmp_path):
    more = "sp-9,p5.48xlarge,us-east-1,reserved_3y,8,30,2025-03-01,2028-02-29,units\n"
    rows = month(PRICE / 4, CommitmentDiscountId="arn:aws:ec2:us-east-1:1234:reserved-instances/ri-1") + month(
        PRICE, CommitmentDiscountId="sp-9"
    )
    table, _ = reconciled(tmp_path, *rows, contracts=CONTRACTS + more)
    assert table.loc[("p_and_l", "ri-1 (p5.48xlarge)")].used_usd == pytest.approx(PRICE / 4)
    assert table.loc[("p_and_l", "ri-1 (p5.48xlarge)")].unused_usd == pytest.approx(3 * PRICE / 4)
    assert table.loc[("p_and_l", "sp-9 (p5.48xlarge)")].unused_usd == 0
    assert table.ties.all()


def test_what_does_not_tie_says_by_how_much_and_why(tmp_path):
    table, notes = reconciled(tmp_path, {**JUNE, "BilledCost": 100, "SkuMeter": "BoxUsage:p5.48xlarge"})
    row = table.loc[("billed", "p5.48xlarge under contract")]
    assert (row.ties, row.difference_usd) == (False, PRICE)
    assert "names neither this contract nor its machine" in row.why
    assert table.loc[("billed", "Amazon Elastic Compute Cloud by use")].bill_usd == 100
    assert any("names neither" in note for note in notes)


def test_a_contract_that_ended_and_an_old_bill_are_called_so(tmp_path):
    ended = CONTRACTS.replace("2028-02-29", "2026-06-20")
    table, notes = reconciled(
        tmp_path, *month(PRICE), contracts=ended, plan=PLAN.replace("2026-07-05", "2026-12-05").replace("2026Q4", "2027Q1")
    )
    assert "starts or ends inside the month" in table.loc[("p_and_l", "p5.48xlarge under contract")].why
    assert table.days_old.unique().tolist() == [158]
    assert any("The last bill is old: 2026-06 ended 158 days" in note for note in notes)
