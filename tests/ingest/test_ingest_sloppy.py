"""Sloppy and hostile files: names like patterns, NUL bytes, absurd times, shared column names, and what logs do not serve."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from capplan.errors import BookError, CapplanError
from capplan.ingest import FORMATS, ingest, options_of

HEADER = "timestamp,input_tokens,output_tokens\n"


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("name", ["log[1].csv", "s*.csv", "q?.csv", "month=7.csv", "it's.csv", "{a,b}.csv"])
def test_names_are_literal(tmp_path, name):
    for other in ("log1.csv", "secret.csv", "qa.csv", "a.csv"):
        write(tmp_path, other, HEADER + "2026-01-01T00:00:00Z,797,1\n")
    path = write(tmp_path, name, HEADER + "2026-01-01T00:00:00Z,30,1\n")
    assert ingest("requests", path).tables["requests"].input_tokens.tolist() == [30]
    import duckdb

    parquet = tmp_path / name.replace(".csv", ".parquet")
    duckdb.connect().sql("select timestamp '2026-01-01' as timestamp, 3 as input_tokens, 2 as output_tokens").write_parquet(
        str(tmp_path / "plain.bin")
    )
    (tmp_path / "plain.bin").rename(parquet)
    assert ingest("requests", parquet).tables["requests"].input_tokens.tolist() == [3]


@pytest.mark.parametrize("packed", [False, True])
def test_a_nul_is_named_with_its_row(tmp_path, packed):
    raw = (HEADER + "2026-01-01T00:00:00Z,12,1\n2026-01-01T00:00:00Z,12\x0034,1\n").encode()
    path = tmp_path / ("log.csv.gz" if packed else "log.csv")
    path.write_bytes(gzip.compress(raw) if packed else raw)
    with pytest.raises(BookError) as caught:
        ingest("requests", path)
    assert any(fault.row == 3 and "NUL" in fault.rule for fault in caught.value.faults)


def test_times_far_apart_or_of_no_year_are_refused(tmp_path):
    wide = write(tmp_path, "wide.csv", HEADER + "1995-01-01T00:00:00Z,1,1\n2095-01-01T00:00:00Z,1,1\n")
    with pytest.raises(CapplanError, match="intervals"):
        ingest("requests", wide, interval_minutes=5)
    for year in ("3026", "0001", "1826"):
        with pytest.raises(BookError, match="years 1990 to 2099"):
            ingest("requests", write(tmp_path, "year.csv", HEADER + f"{year}-01-01T00:00:00Z,1,1\n"))
    jobs = write(
        tmp_path, "jobs.csv", "name,submit_time,duration,gpus\n" + "".join(f"{n},1990-01-01,1,1\n{n},2099-01-01,1,1\n" for n in "abcdefgh")
    )
    with pytest.raises(CapplanError, match="intervals"):
        ingest("jobs", jobs, columns="team=name")


@pytest.mark.parametrize(("factor", "unit"), [(1, "seconds"), (10**3, "milliseconds"), (10**6, "microseconds"), (10**9, "nanoseconds")])
def test_unix_times_of_every_unit(tmp_path, factor, unit):
    path = write(tmp_path, "log.csv", HEADER + f"{1788220800 * factor},5,1\n{1788224400 * factor},7,2\n")
    found = ingest("requests", path)
    assert [str(time) for time in found.tables["usage"].time] == ["2026-09-01 00:00:00", "2026-09-01 01:00:00"]
    assert any(unit in note for note in found.notes)


def test_failed_and_cached_requests_are_no_work(tmp_path):
    rows = [("200", "False", 10), ("500", "False", 10), ("429", "False", 10), ("200", "True", 10), ("200", "False", 0)]
    text = "ts,prompt_tokens,completion_tokens,status_code,cache_hit\n" + "".join(
        f"2026-01-01T00:{minute:02d}:00Z,100,{output},{status},{hit}\n" for minute, (status, hit, output) in enumerate(rows)
    )
    found = ingest("requests", write(tmp_path, "log.csv", text))
    usage = found.tables["usage"]
    assert (usage.quantity.tolist(), usage.refused_quantity.tolist()) == ([1], [1])
    assert found.rows == 5
    assert any("1 requests were served by the model; 2 failed and 1 were answered from a cache" in note for note in found.notes)
    words = text.replace(",200,", ",success,").replace(",500,", ",failure,").replace(",429,", ",rate_limited,")
    assert ingest("requests", write(tmp_path, "words.csv", words)).tables["usage"].refused_quantity.tolist() == [1]
    silent = "ts,prompt_tokens,completion_tokens,model\n2026-01-01T00:00:00Z,9,0,embed-1\n2026-01-01T00:00:01Z,9,5,chat\n"
    assert ingest("requests", write(tmp_path, "silent.csv", silent)).tables["usage"].quantity.tolist() == [1, 1]
    failed = "ts,prompt_tokens,completion_tokens,status\n2026-01-01T00:00:00Z,9,5,failure\n"
    with pytest.raises(BookError, match="no request was served"):
        ingest("requests", write(tmp_path, "failed.csv", failed))


@pytest.mark.parametrize("odd", ["nan", "inf", "-Infinity", "NaN"])
@pytest.mark.parametrize(
    ("format", "head", "row"),
    [
        ("requests", "ts,prompt_tokens,completion_tokens", "{},1,1"),
        ("jobs", "name,submit_time,end_time,gpus", "a,{},2026-01-02,1"),
        ("slurm", "JobID,Submit,Start,End,AllocTRES", "1,{0},{0},{0},gres/gpu=2"),
    ],
)
def test_a_number_without_an_end_is_no_time(tmp_path, format, head, row, odd):
    for lines in ([odd], [odd, odd], ["1767225600", odd], ["2026-01-01", odd]):
        path = write(tmp_path, "log.csv", "\n".join([head, *(row.format(each) for each in lines)]) + "\n")
        with pytest.raises(BookError, match=r"row \d, column (ts|submit_time|Submit)"):
            ingest(format, path)


@pytest.mark.parametrize(
    ("statuses", "refused"),
    [
        (("429", "503", "529", "503.0", "Rate_Limited", "throttled", "overloaded", "rejected"), 1),
        (("400", "404", "500", "502", "504", "error", "timeout", "cancelled"), 0),
    ],
)
def test_not_now_is_refused_and_everything_else_that_went_wrong_has_failed(tmp_path, statuses, refused):
    """One request was served each time: what was refused is demand, what failed is none."""
    for status in statuses:
        rows = f"ts,prompt_tokens,completion_tokens,status\n2026-01-01T00:00:00Z,9,5,200\n2026-01-01T00:01:00Z,9,0,{status}\n"
        usage = ingest("requests", write(tmp_path, "log.csv", rows)).tables["usage"]
        counted = usage["refused_quantity"].fillna(0).tolist() if "refused_quantity" in usage else [0]
        assert (usage["quantity"].tolist(), counted) == ([1], [refused]), status


def test_failures_told_by_flags_and_errors_and_spans_that_are_no_calls(tmp_path):
    instant = "2026-01-01T00:0{}:00Z"
    for column, good, bad in (
        ("success", "True", "False"),
        ("error", "", "Timeout"),
        ("error.type", "", "504"),
        ("level", "DEFAULT", "ERROR"),
    ):
        rows = "".join(f"{instant.format(place)},9,5,{word}\n" for place, word in enumerate((good, bad, good)))
        found = ingest("requests", write(tmp_path, "log.csv", f"ts,prompt_tokens,completion_tokens,{column}\n{rows}"))
        assert found.tables["usage"].quantity.tolist() == [2], column
    spans = [("chat", 9, 5), ("invoke_agent", 9, 5), ("execute_tool", "", ""), ("retrieve", "", "")]
    text = "start_time,gen_ai.operation.name,gen_ai.usage.input_tokens,gen_ai.usage.output_tokens\n" + "".join(
        f"{instant.format(place)},{','.join(map(str, span))}\n" for place, span in enumerate(spans)
    )
    found = ingest("auto", write(tmp_path, "spans.csv", text))
    assert found.tables["requests"][["requests", "input_tokens", "output_tokens"]].to_numpy().tolist() == [[1, 9, 5]]
    assert any("3 rows are no calls of a model" in note for note in found.notes)
    assert found.rows == 4


def test_first_and_last_hours_that_a_log_covers_in_part(tmp_path):
    rows = "".join(f"2026-01-01T{minute // 60:02d}:{minute % 60:02d}:00Z,1,1\n" for minute in range(45, 135))
    usage = ingest("requests", write(tmp_path, "log.csv", HEADER + rows)).tables["usage"]
    assert usage.quantity.tolist() == [15, 60, 15]
    assert usage.covered_share.tolist() == pytest.approx([16 / 60, float("nan"), 15 / 60], nan_ok=True, abs=1e-9)


def test_columns_can_be_ignored_and_scaled(tmp_path):
    path = write(tmp_path, "log.csv", "ts,prompt_tokens,completion_tokens,status\n2026-01-01T00:00:00Z,2,1,500\n")
    found = ingest("requests", path, ignore="status", scale="input_tokens=1000")
    assert found.tables["requests"].input_tokens.tolist() == [2000]
    with pytest.raises(BookError, match="ignore= names a column that the file does not have"):
        ingest("requests", path, ignore="state")
    with pytest.raises(BookError, match="no number of this format"):
        ingest("requests", path, scale="status=2")
    with pytest.raises(CapplanError, match="above zero"):
        ingest("requests", path, scale="input_tokens=0")


SACCT = "JobID|JobName|Account|State|Submit|Start|End|Elapsed|AllocTRES\n"


def job(number: int, tres: str, name: str = "train", hours: int = 2) -> str:
    return (
        f"{number}|{name}|vision|COMPLETED|2026-09-01T00:00:00|2026-09-01T00:00:00|2026-09-01T{hours:02d}:00:00|{hours:02d}:00:00|{tres}\n"
    )


def test_entries_of_other_schedulers_versions(tmp_path):
    head = SACCT.replace("JobID", "JobIDRaw").replace("Elapsed|", "").replace("AllocTRES", "NNodes|ReqGRES")
    for entry, right in (("gres:gpu:h100:4", 16), ("PER_NODE:gpu:2", 8), ("gres/gpu:2", 8), ("gpu:4", 16)):
        row = job(1, f"2|{entry}").replace("|02:00:00|2", "|2")
        assert ingest("auto", write(tmp_path, "old.txt", head + row)).tables["usage"].quantity.sum() == right, entry
    found = ingest("slurm", write(tmp_path, "mps.txt", SACCT + job(1, "gres/gpu=1") + job(2, "cpu=4,gres/mps=50")))
    assert found.tables["usage"].quantity.tolist() == [1.5, 1.5]
    assert any("1 job holds percents" in note for note in found.notes)
    with pytest.raises(CapplanError, match="sacct --parsable2"):
        ingest("auto", write(tmp_path, "eye.txt", "JobID           JobName    AllocTRES\n------- ------- -------\n1 a gres/gpu=+\n"))


def test_slices_shards_and_bars_in_job_names(tmp_path):
    slices = (
        job(1, "gres/gpu:1g.10gb=2,gres/gpu=2", hours=7) + job(2, "gres/gpu:a100_3g.20gb=1") + job(3, "gres/gpu:a30_2g.12gb=1,gres/gpu=1")
    )
    found = ingest("slurm", write(tmp_path, "mig.txt", SACCT + slices))
    assert found.tables["usage"].quantity.sum() == pytest.approx(7 * 2 / 7 + 2 * 3 / 7 + 2 / 2)
    bars = ingest("slurm", write(tmp_path, "bars.txt", SACCT + job(1, "gres/gpu=4") + job(2, "gres/gpu=8", "grid a|b||c")))
    assert bars.tables["usage"].quantity.tolist() == [12, 12]
    shards = write(tmp_path, "shards.txt", SACCT + job(1, "gres/gpu=1") + job(2, "cpu=4,gres/shard=2"))
    named = ingest("slurm", shards)
    assert named.tables["usage"].quantity.tolist() == [1, 1]
    assert any("1 job holds 2 shards" in note for note in named.notes)
    assert not any("without accelerators" in note for note in named.notes)
    assert ingest("slurm", shards, shards_per_accelerator=4).tables["usage"].quantity.tolist() == [1.5, 1.5]
    row = "1|a|b|c|COMPLETED|2026-09-01T00:00:00|2026-09-01T00:00:00|2026-09-01T02:00:00|02:00:00|gres/gpu=1"
    two = f"JobID|JobName|Comment|State|Submit|Start|End|Elapsed|AllocTRES\n{row}\n"
    with pytest.raises(BookError, match="only one of JobName, Comment"):
        ingest("slurm", write(tmp_path, "two.txt", two))


@pytest.mark.parametrize("packed", [False, True])
def test_an_endless_line_is_named_and_not_dropped(tmp_path, packed):
    raw = (HEADER + "2026-01-01T00:00:00Z,1,1\n" * 2).encode() + b"x" * 40_000_000
    path = tmp_path / ("log.csv.gz" if packed else "log.csv")
    path.write_bytes(gzip.compress(raw, 1) if packed else raw)
    with pytest.raises(BookError, match="the line after line 3 is longer than"):
        ingest("requests", path)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("junk.parquet", b"PAR1junkjunkPAR1"),
        ("cut.csv.gz", gzip.compress((HEADER + "2026-01-01T00:00:00Z,1,1\n" * 5000).encode())[:-20]),
        ("header.csv", f"timestamp,input_tokens,{'a' * 1_100_000},output_tokens\n2026-01-01T00:00:00Z,1,1,1\n".encode()),
        ("number.csv", (HEADER + f"2026-01-01T00:00:00Z,{'9' * 900_000},1\n").encode()),
    ],
)
def test_what_cannot_be_read_is_one_short_fault(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(BookError) as caught:
        ingest("requests", path)
    assert name in str(caught.value)
    assert len(str(caught.value)) < 4000


@pytest.mark.parametrize(
    ("times", "right"),
    [
        (("11/28/2026 3:00 PM", "11/28/2026 4:10 PM"), "2026-11-28T15"),
        (("28/11/2026 15:00", "29/11/2026 16:00"), "2026-11-28T15"),
        (("28.11.2026 15:00:01", "29.11.2026 16:00:59"), "2026-11-28T15"),
        (("11/28/26 15:00", "11/29/26 15:00"), "2026-11-28T15"),
        (("11/28/2026, 3:00:00\u202fPM", "12/1/2026, 3:00:00\u202fPM"), "2026-11-28T15"),
        (("11/28/2026, 3:00:00.000 PM", "11/29/2026, 3:00:00.250 PM"), "2026-11-28T15"),
        (("Nov 28, 2026 3:00 PM", "Nov 29, 2026 3:00 PM"), "2026-11-28T15"),
        (("11/28/2026 3:00 PM UTC", "11/29/2026 3:00 PM UTC"), "2026-11-28T15"),
        (("11/9/2026 3:00 PM", "11/8/2026 4:00 PM"), "which number is the day"),
        (("13/28/2026 3:00 PM", "11/29/2026 3:00 PM"), "13/28/2026 3:00 PM'; a time is needed"),
        (("2026-11-28 15:00", "11/29/2026 3:00 PM"), "11/29/2026 3:00 PM'; a time is needed"),
    ],
)
def test_days_in_any_order_where_the_column_decides_it(tmp_path, times, right):
    path = tmp_path / "log.csv"
    path.write_text("timestamp,input_tokens,output_tokens,service\n" + "".join(f'"{time}",10,5,chat\n' for time in times), encoding="utf-8")
    if " " in right:
        with pytest.raises(BookError, match=right):
            ingest("requests", path)
        return
    usage = ingest("requests", path).tables["usage"]
    assert f"{usage.time.min():%Y-%m-%dT%H}" == right
    assert usage.quantity.sum() == 2


def test_what_a_job_got_counts_before_what_it_asked_for_and_where_no_length_is_told_its_start_and_end_do(tmp_path):
    head = "JobID|Account|State|Submit|Start|End|AllocTRES|ReqTRES\n"
    times = "2026-10-01T00:00:00|2026-10-01T01:00:00|2026-10-01T03:30:00"
    rows = {
        "1": ("gres/gpu=4", "gres/gpu=8"),
        "2": ("gres/shard=2", "gres/shard=8"),
        "3": ("gres/mps=50", "gres/mps=100"),
        "4": ("", "gres/gpu=2"),
    }
    text = head + "".join(f"{name}|a|COMPLETED|{times}|{got}|{asked}\n" for name, (got, asked) in rows.items())
    jobs = ingest("slurm", write(tmp_path, "sacct.txt", text), shards_per_accelerator=4).tables["jobs"].set_index("job_id")
    assert jobs["accelerators"].to_dict() == {"1": 4, "2": 0.5, "3": 0.5, "4": 2}
    assert set(jobs["duration_seconds"]) == {2.5 * 3600}


@pytest.mark.parametrize("form", ["auto", "requests"])
def test_a_file_that_is_none_is_named_as_it_was_given(tmp_path, form):
    for name, data in (("junk.parquet", b"x" * 3000), ("cut.jsonl", b'{"timestamp": [[[')):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(CapplanError) as caught:
            ingest(form, tmp_path / name)
        assert name in str(caught.value)
        assert "capplan-ingest" not in str(caught.value)


@pytest.mark.parametrize("form", FORMATS)
def test_true_and_false_are_no_numbers_and_no_names(form, tmp_path):
    model = options_of(form)
    for name, field in model.model_fields.items():
        if field.annotation is bool:
            assert getattr(model(**{name: True}), name) is True
        else:
            with pytest.raises(CapplanError, match=f"{name} = True: true and false are no numbers"):
                ingest(form, tmp_path / "log.csv", **{name: True})
