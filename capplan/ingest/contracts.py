"""Lists of signed contracts, as clouds and finance export them, into the table commitments."""

from pathlib import Path

import pandas as pd
from pydantic import Field

from capplan.book.terms import TERMS
from capplan.errors import BookError, Fault
from capplan.ingest.cells import Wanted, convert
from capplan.ingest.ingested import Ingested, shaped, stem_of
from capplan.ingest.known import known_table
from capplan.ingest.machines import Recogniser
from capplan.ingest.opening import Sheet
from capplan.ingest.reading_options import ReadingOptions
from capplan.records import word_list


class ContractOptions(ReadingOptions):
    """Options of lists of contracts."""

    region: str | None = Field(None, description="Region of contracts that state none.", min_length=1)


CONTRACT_COLUMNS = (
    Wanted("sku", "text", ("instance_type", "machine_type", "machine", "vm_size", "instance")),
    Wanted("machines", "number", ("instance_count", "count", "instances", "nodes", "machine_count"), minimum=0),
    Wanted(
        "usd_per_hour",
        "money",
        word_list(
            "hourly_price hourly_rate hourly_cost effective_hourly_rate price_per_hour recurring_hourly_charge committed_usd_per_hour"
        ),
    ),
    Wanted("start", "time", ("start_date", "starts", "from", "start_time", "effective_date", "valid_from")),
    Wanted("end", "time", ("end_date", "ends", "until", "expiry", "expires", "expiration_date", "end_time", "valid_to")),
    Wanted(
        "commitment_id",
        "text",
        ("contract", "contract_id", "reservation_id", "reserved_instances_id", "id", "name", "savings_plan_id"),
        required=False,
    ),
    Wanted("region", "text", ("location", "availability_zone"), required=False),
    Wanted("term", "text", ("kind", "offering_class"), required=False),
    Wanted("discounts", "text", (), required=False),
    Wanted("notice_date", "time", ("notice",), required=False),
    Wanted("upfront_paid_usd", "money", ("upfront", "fixed_price", "upfront_usd"), required=False),
    Wanted("team", "text", (), required=False),
    Wanted("cost_center", "text", ("cost_centre",), required=False),
)
#: Longest contract that is taken for one of a year, in days.
ONE_YEAR_DAYS = 550


def read_contracts(file: Path, options: ContractOptions, book: Path | None = None) -> Ingested:
    """Say which contracts are signed.

    Args:
        file: One row a contract: machine type, machines, price of one machine for one hour, first and last day; optionally its name, region
            and term.
        book: Folder of the book, whose machine types are known besides the reference facts.

    Returns:
        Ingested: Table commitments. A term that is not stated follows from the length.

    Raises:
        BookError: Naming every row whose machine no table has, or that ends before it starts.
    """
    with Sheet(file, options, nulls=("NULL", "null", "N/A", "(null)")) as sheet:
        convert(sheet, CONTRACT_COLUMNS)
        rows = sheet.connection.execute("select * from typed").df()
        notes = list(sheet.notes)
    recogniser = Recogniser(known_table("skus", book), known_table("accelerators", book))
    known = set(known_table("skus", book)["sku"])
    found = [recogniser.find(str(name)) for name in rows["sku"]]
    names = [
        name if name in known else machine.name if machine is not None else name for name, machine in zip(rows["sku"], found, strict=True)
    ]
    faults = [
        Fault(
            file.name, place + 2, "sku", str(rows["sku"][place]), "no table has this machine type", "Add it to skus.csv of the book first."
        )
        for place, name in enumerate(names)
        if name not in known
    ]
    faults += [
        Fault(file.name, int(place) + 2, "end", str(rows["end"][place]), "the contract ends before it starts", "Correct one of the two.")
        for place in rows.index[rows["end"] < rows["start"]]
    ]
    if faults:
        raise BookError(faults, where=file.name)
    days = (rows["end"] - rows["start"]).dt.days
    term = rows["term"].str.lower().str.replace(r"[^a-z0-9]+", "_", regex=True)
    kind = pd.Series(["savings_plan" if isinstance(text, str) and "savings" in text else "reserved" for text in term], index=rows.index)
    by_length = kind + pd.Series(["_1y" if length <= ONE_YEAR_DAYS else "_3y" for length in days], index=rows.index)
    stated = term.isin(TERMS)
    rows["term"] = term.where(stated, by_length)
    if not stated.all():
        notes.append(f"{int((~stated).sum())} contracts state no term that capplan knows; it was taken from their length.")
    rows["discounts"] = rows["discounts"].fillna(kind.map({"savings_plan": "usd_per_hour", "reserved": "units"}))
    if options.region is None and rows["region"].isna().any():
        sheet.refuse(
            f"{int(rows['region'].isna().sum())} contracts state no region",
            "Give it: region=us-east-1, or fill in the column.",
            column="region",
        )
    if options.region is not None:
        rows["region"] = rows["region"].fillna(options.region)
    numbered = pd.Series([f"{stem_of(file)}-{place + 1}" for place in rows.index], index=rows.index)
    frame = rows.assign(
        sku=names, commitment_id=rows["commitment_id"].fillna(numbered), start=rows["start"].dt.floor("D"), end=rows["end"].dt.floor("D")
    )
    given = frame[[name for name in frame.columns if frame[name].notna().any()]]
    commitments = shaped(given.fillna({"upfront_paid_usd": 0.0, "team": "shared", "cost_center": "shared"}), "commitments")
    total = (commitments["machines"] * commitments["usd_per_hour"]).sum()
    headline = f"{len(commitments)} contracts for {commitments['machines'].sum():g} machines, {total:,.2f} USD an hour in all."
    period = (commitments["start"].min(), commitments["end"].max())
    return Ingested({"commitments": commitments}, tuple(notes), headline, parts={"commitments": commitments}, rows=len(rows), period=period)
