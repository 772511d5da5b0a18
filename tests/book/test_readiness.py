"""A passing check means that a plan can start, and a book that says little is taken to mean sensible things."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from capplan.answers.readiness import readiness
from capplan.book.book import load_book
from capplan.book.scenario import build_scenario
from capplan.outputs.page.plan_page import whose_facts

USAGE = "time,workload,quantity\n" + "".join(f"2026-11-{day:02d},train,64\n" for day in range(1, 29))
WORKLOADS = "workload,stage,unit\ntrain,pretraining,{unit}\n"
SPEEDS = "workload,accelerator,work_per_accelerator_hour,basis\ntrain,H100,1,stated\n"
CONTRACT = (
    "commitment_id,sku,region,term,machines,usd_per_hour,start,end\nri,p5.48xlarge,us-east-1,reserved_1y,1,30,2026-01-01,2027-12-31\n"
)
SOURCES = "source_id,title,where_found,retrieved_on\nq,quotes,mail,2026-11-01\n"
BLOCK = (
    "offer_id,sku,region,geography,term,term_months,usd_per_hour,available_from,available_to,discounts,guarantees_capacity,as_of,source_id\n"
    "block,p5.48xlarge,us-east-1,us,capacity_block,3,30,{start},{end},units,true,2026-11-01,q\n"
)


def book(folder: Path, yaml: str = "", **tables: str) -> Path:
    (folder / "book.yaml").write_text("name: t\nas_of: 2026-11-28\nfirst_quarter: 2027Q1\nhorizon_quarters: 2\n" + yaml)
    for name, text in {"usage": USAGE, "workloads": WORKLOADS.format(unit="accelerator_hours"), **tables}.items():
        (folder / f"{name}.csv").write_text(text)
    return folder


def reasons(folder: Path) -> list[str]:
    loaded = load_book(folder)
    return readiness(loaded, loaded.scenario)


def test_a_book_that_can_be_planned_passes(tmp_path):
    assert reasons(book(tmp_path, speeds=SPEEDS)) == []


def test_missing_speeds_are_named_with_what_to_do(tmp_path):
    found = reasons(book(tmp_path, workloads=WORKLOADS.format(unit="requests")))
    assert len(found) == 1
    assert "no speed is known for train" in found[0]
    assert "speeds.csv" in found[0]


def test_a_block_that_has_ended_is_named_with_its_row(tmp_path):
    past = book(tmp_path, speeds=SPEEDS, sources=SOURCES, offers=BLOCK.format(start="2026-01-01", end="2026-03-31"))
    found = reasons(past)
    assert found[0].startswith("offers.csv, row 2, column available_from: the capacity block block starts on 2026-01-01")
    book(tmp_path, "excluded_offers: [block]\nproviders: [aws]\n")
    assert reasons(past) == []
    assert reasons(book(tmp_path, offers=BLOCK.format(start="2027-01-01", end="2027-03-31"))) == []


def test_an_offer_whose_window_is_past_is_named_with_its_row(tmp_path):
    text = BLOCK.replace("capacity_block", "lease")
    found = reasons(book(tmp_path, speeds=SPEEDS, sources=SOURCES, offers=text.format(start="2026-01-01", end="2026-03-31")))
    assert found[0].startswith(
        "offers.csv, row 2, column available_to: block could be signed until 2026-03-31 and has ended; delete the row"
    )
    assert reasons(book(tmp_path, offers=text.format(start="2026-01-01", end="2027-03-31"))) == []


def test_a_row_is_named_as_its_file_has_it_also_where_what_ifs_touch_others(tmp_path):
    """Rows are read in the order of their keys, and a what-if that moves their table takes their lines from them."""
    later, past = (BLOCK.format(start=f"202{y}-01-01", end=f"202{y}-03-31").replace("capacity_block", "lease") for y in (7, 6))
    text = later.replace("\nblock", "\nz-later") + past.replace("block", "a-past").partition("\n")[2]
    loaded = load_book(book(tmp_path, speeds=SPEEDS, sources=SOURCES, offers=text, commitments=CONTRACT))
    own = loaded.get("offers").assign(line=loaded.lines_of("offers")).set_index("offer_id")["line"]
    assert own.is_monotonic_increasing is False
    assert own[own > 0].to_dict() == {"a-past": 3, "z-later": 2}
    assert "offers.csv, row 3, column available_to: a-past" in readiness(loaded, loaded.scenario)[0]
    fewer = loaded.with_changes(build_scenario({"changes": ["commitments.ri set machines 2"]}).changes)
    assert fewer.lines_of("offers").tolist() == own.tolist()
    assert not fewer.lines_of("commitments").any()


def test_nothing_to_buy_and_unknown_names(tmp_path):
    assert "nothing can be had" in reasons(book(tmp_path, "providers: [lambda]\ngeographies: [uk]\n", speeds=SPEEDS))[0]
    assert "providers names 'amazon'" in reasons(book(tmp_path, "providers: [amazon]\n"))[0]


def test_providers_follow_from_contracts_offers_and_bills(tmp_path):
    assert load_book(book(tmp_path, speeds=SPEEDS, commitments=CONTRACT)).scenario.providers == ("aws",)
    offer = BLOCK.format(start="2027-01-01", end="2027-03-31").replace("p5.48xlarge", "lambda-gpu_8x_h100_sxm5")
    loaded = load_book(book(tmp_path, sources=SOURCES, offers=offer))
    assert loaded.scenario.providers == ("aws", "lambda")
    assert any("aws, lambda may be bought from" in note for note in loaded.notes)
    site = "site,geography,available_kw,pue,committed_kw,usd_per_kw_month,usd_per_kwh\ndc1,us,100,1.3,100,150,0.08\n"
    housed = load_book(book(tmp_path, sites=site)).scenario.providers
    assert housed == ("aws", "lambda", "own")
    assert load_book(book(tmp_path, "providers: []\n")).scenario.providers == ()


def test_a_book_of_usage_only_may_buy_from_all_but_builds_no_data_centre(tmp_path):
    providers = load_book(book(tmp_path, speeds=SPEEDS)).scenario.providers
    assert {"aws", "gcp", "azure", "coreweave"} <= set(providers)
    assert "own" not in providers


def test_check_is_quick_and_loads_no_solver(tmp_path):
    folder = book(tmp_path, speeds=SPEEDS)
    code = (
        "import resource, sys; from capplan.answers.readiness import require_ready; from capplan.book.book import load_book; found ="
        f" load_book({str(folder)!r}); require_ready(found, found.scenario); print([name for name in ('dask', 'pulp', 'highspy', 'numba',"
        " 'altair') if name in sys.modules], resource.getrusage(resource.RUSAGE_SELF).ru_utime)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.startswith("[] ")


def test_page_one_says_whose_facts_a_plan_rests_on(tmp_path):
    bare = whose_facts(load_book(book(tmp_path, speeds=SPEEDS, commitments=CONTRACT)))
    assert bare.startswith("Facts of yours: workloads, usage, commitments, speeds. Facts that come with capplan: all list prices (20")
    assert bare.endswith("machine types, accelerators.")
    quoted = whose_facts(load_book(book(tmp_path, sources=SOURCES, offers=BLOCK.format(start="2027-01-01", end="2027-03-31"))))
    assert "offers" in quoted.split(". Facts")[0]
    assert "where yours name none" in quoted
