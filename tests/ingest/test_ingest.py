"""Foreign formats: totals are kept, every fault is named, and a book never gets half a table."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from capplan.book.reader import read_table
from capplan.book.tables.registry import TABLES
from capplan.errors import BookError, CapplanError
from capplan.ingest import FORMATS, ingest, options_of
from capplan.ingest.writing import csv_text, merge, write_tables
from tests.conftest import reference_file


def real(name: str) -> Path:
    """Return a public data file, or skip where it is absent."""
    return reference_file("data", *name.split("/"))


def write(folder: Path, name: str, text: str, encoding: str = "utf-8") -> Path:
    path = folder / name
    path.write_bytes(text.encode(encoding))
    return path


def faults_of(run) -> list:
    with pytest.raises(BookError) as caught:
        run()
    return list(caught.value.faults)


def assert_loads(found, folder: Path) -> None:
    """Every table can be written, and reads back without a fault and with equal content."""
    for table, frame in found.tables.items():
        path = folder / f"{table}.csv"
        path.write_text(csv_text(frame, table), encoding="utf-8")
        back, faults = read_table(path, table)
        assert not faults, [str(fault) for fault in faults[:3]]
        for column in frame.columns:
            if frame[column].notna().any():
                same = back[column].reset_index(drop=True)
                pd.testing.assert_series_equal(frame[column], same.astype(frame[column].dtype), rtol=1e-14, obj=f"{table}.{column}")


# ------------------------------------------------------------------------------------------------ request logs


def test_requests_real_azure(tmp_path):
    path = real("llm_demand/azure_llm_inference_2023_code.csv")
    found = ingest("requests", path)
    source = pd.read_csv(path)
    total = found.tables["requests"][["requests", "input_tokens", "output_tokens"]].sum()
    assert total.tolist() == [len(source), source.ContextTokens.sum(), source.GeneratedTokens.sum()]
    assert len(source) == 8819  # rows of the public trace
    assert found.tables["usage"].quantity.sum() == 8819
    assert any("UTC" in note for note in found.notes)
    assert any("covers 72% of its first interval" in note for note in found.notes)  # 18:17:03 to 19:00
    assert_loads(found, tmp_path)


def test_requests_real_milliseconds_from_a_start():
    path = real("llm_demand/mooncake_conversation_trace.csv.gz")
    with pytest.raises(BookError, match="start that the file does not give"):
        ingest("requests", path)
    found = ingest("requests", path, start="2024-06-01T12:00:00")
    source = pd.read_csv(path)
    assert len(source) == 12031
    assert found.tables["requests"].input_tokens.sum() == source.input_tokens.sum()
    assert found.tables["requests"].time.tolist() == [pd.Timestamp("2024-06-01 12:00")]


def test_requests_units_statuses_and_empty_hours(tmp_path):
    text = """ts,prompt_tokens,completion_tokens,status_code,model
2026-01-01T00:10:00Z,100,10,200,a
2026-01-01T00:20:00Z,300,30,200,a
2026-01-01T00:30:00Z,,,429,a
2026-01-01T03:00:00Z,5,1,200,a
2026-01-01T02:59:59.999Z,7,2,200,b
"""
    path = write(tmp_path, "log.csv", text)
    found = ingest("requests", path)
    usage = found.tables["usage"]
    a = usage[usage.workload == "a"]
    assert a.quantity.tolist() == [2, 0, 0, 1]  # the empty hours of a complete log are zero
    assert a.refused_quantity.tolist() == [1, 0, 0, 0]
    assert usage[usage.workload == "b"].time.tolist() == [pd.Timestamp("2026-01-01 02:00")]
    tokens = ingest("requests", path, unit="tokens").tables["usage"]
    a = tokens[tokens.workload == "a"]
    assert a.quantity.tolist() == [440, 0, 0, 6]
    assert a.refused_quantity.iloc[0] == pytest.approx(446 / 3)
    named = ingest("requests", path, workload="chat", interval_minutes="1440").tables["usage"]
    assert named.quantity.tolist() == [4]


def test_times_with_zone_epoch_and_pattern(tmp_path):
    want = [pd.Timestamp("2026-07-01 10:00")]
    rows = {
        "zone": ("2026-07-01T12:30:00+02:00", {}),
        "spaced": ("2026-07-01 12:30:00 +0200", {}),
        "named": ("2026-07-01 10:30:00 UTC", {}),
        "naive": ("2026-07-01 12:30:00", {"timezone": "Europe/Berlin"}),
        "seconds": (str(int(pd.Timestamp("2026-07-01 10:30").timestamp())), {}),
        "milliseconds": (str(int(pd.Timestamp("2026-07-01 10:30").timestamp() * 1000)), {}),
        "pattern": ("01.07.2026 12:30", {"time_format": "%d.%m.%Y %H:%M", "timezone": "Europe/Berlin"}),
        "offset": ("01.07.2026 12:30 +0200", {"time_format": "%d.%m.%Y %H:%M %z"}),
    }
    for name, (time, options) in rows.items():
        path = write(tmp_path, f"{name}.csv", f"timestamp,input_tokens,output_tokens\n{time},1,1\n")
        assert ingest("requests", path, **options).tables["usage"].time.tolist() == want, name


def test_times_that_only_look_like_numbers(tmp_path):
    path = write(tmp_path, "nan.csv", "timestamp,input_tokens,output_tokens\n1700000000,1,1\ninf,1,1\n")
    assert [(fault.row, fault.value) for fault in faults_of(lambda: ingest("requests", path))] == [(3, "inf")]


def test_summer_time(tmp_path):
    gone = write(tmp_path, "gone.csv", "timestamp,input_tokens,output_tokens\n2026-03-29 01:30:00,1,1\n2026-03-29 02:30:00,1,1\n")
    fault = faults_of(lambda: ingest("requests", gone, timezone="Europe/Berlin"))[0]
    assert (fault.row, fault.value) == (3, "2026-03-29 02:30:00")
    assert "does not exist in Europe/Berlin" in fault.rule
    twice = write(tmp_path, "twice.csv", "timestamp,input_tokens,output_tokens\n2026-10-25 02:30:00,1,1\n")
    found = ingest("requests", twice, timezone="Europe/Berlin")
    assert found.tables["usage"].time.tolist() == [pd.Timestamp("2026-10-25 01:00")]
    assert any("has twice" in note for note in found.notes)


def test_mixed_zones_are_named(tmp_path):
    text = "timestamp,input_tokens,output_tokens\n2026-01-01T00:00:00Z,1,1\n2026-01-01T01:00:00,1,1\n"
    fault = faults_of(lambda: ingest("requests", write(tmp_path, "mixed.csv", text)))[0]
    assert (fault.row, fault.column, fault.value) == (3, "timestamp", "2026-01-01T01:00:00")
    assert "1 cells of the column state a time zone and 1 do not" in fault.rule


def test_all_faults_at_once_with_spreadsheet_rows(tmp_path):
    text = 'timestamp,input_tokens,output_tokens,model\n2026-01-01,1,1,"two\nlines"\n\nnoon,x,-3,a\n2026-01-02,"1,000",inf,a\n,1,1,a\n'
    book = tmp_path / "book"
    book.mkdir()
    found = faults_of(lambda: ingest("requests", write(tmp_path, "bad.csv", text), book))
    assert [(fault.row, fault.column, fault.value) for fault in found] == [
        (4, "timestamp", "noon"),
        (4, "input_tokens", "x"),
        (4, "output_tokens", "-3"),
        (5, "input_tokens", "1,000"),
        (5, "output_tokens", "inf"),
        (6, "timestamp", ""),
    ]
    assert not list(book.iterdir())  # nothing is written


def test_many_faults_are_bounded(tmp_path):
    path = write(tmp_path, "many.csv", "timestamp,input_tokens,output_tokens\n" + "2026-01-01,x,1\n" * 500)
    with pytest.raises(BookError) as caught:
        ingest("requests", path)
    assert "460 more cells break the same rule" in str(caught.value)
    assert len(str(caught.value).splitlines()) <= 43


def test_ragged_rows(tmp_path):
    path = write(tmp_path, "ragged.csv", "timestamp,input_tokens,output_tokens\n2026-01-01,1,1\n2026-01-01,1\n2026-01-01,1,2,3\n")
    assert [(fault.row, fault.rule) for fault in faults_of(lambda: ingest("requests", path))] == [
        (3, "the row has fewer cells than the header"),
        (4, "the row has more cells than the header"),
    ]


def test_unknown_layout_says_what_is_needed_and_found(tmp_path):
    path = write(tmp_path, "odd.csv", "when,prompt,answer\n2026-01-01,1,1\n")
    with pytest.raises(BookError) as caught:
        ingest("requests", path)
    message = str(caught.value)
    assert "no column for timestamp" in message
    assert "when, prompt, answer" in message
    assert "columns=timestamp=NAME" in message
    found = ingest("requests", path, columns="timestamp=when,input_tokens=prompt,output_tokens=answer")
    assert found.tables["usage"].quantity.sum() == 1
    with pytest.raises(BookError, match="Did you mean when"):
        ingest("requests", path, columns={"timestamp": "whem"})


def test_a_needed_column_that_occurs_twice(tmp_path):
    path = write(tmp_path, "twice.csv", "timestamp,input_tokens,input_tokens,output_tokens,note,note\n2026-01-01,1,2,5,,\n")
    assert [(fault.row, fault.column) for fault in faults_of(lambda: ingest("requests", path))] == [(1, "input_tokens")]
    second = ingest("requests", path, columns={"input_tokens": "input_tokens_3"})
    assert second.tables["requests"].input_tokens.tolist() == [2]


def test_compressed_with_zstandard(tmp_path):
    import duckdb

    path = tmp_path / "log.csv.zst"
    row = "select timestamp '2026-01-01' as timestamp, 3 as input_tokens, 2 as output_tokens"
    duckdb.connect().execute(f"copy ({row}) to '{path}' (format csv, header, compression zstd)")
    assert ingest("requests", path).tables["requests"].input_tokens.tolist() == [3]


@pytest.mark.parametrize(
    ("name", "text", "encoding"),
    [
        ("bom.csv", "timestamp,input_tokens,output_tokens\r\n2026-01-01,1.5,1\r\n", "utf-8-sig"),
        ("semicolon.csv", "timestamp;input_tokens;output_tokens\n2026-01-01;1,5;1\n", "utf-8"),
        ("tab.csv", "timestamp\tinput_tokens\toutput_tokens\n2026-01-01\t1.5\t1\n", "utf-8"),
        ("utf16.csv", "timestamp;input_tokens;output_tokens\n2026-01-01;1,5;1\n", "utf-16"),
    ],
)
def test_dialects(tmp_path, name, text, encoding):
    found = ingest("requests", write(tmp_path, name, text, encoding))
    assert found.tables["requests"].input_tokens.tolist() == [1.5]


def test_compressed_and_parquet(tmp_path):
    text = "timestamp,input_tokens,output_tokens\n2026-01-01T00:00:00Z,2,1\n"
    path = tmp_path / "log.csv.gz"
    path.write_bytes(gzip.compress(text.encode()))
    assert ingest("requests", path).tables["usage"].workload.tolist() == ["log"]
    frame = pd.DataFrame({"timestamp": pd.to_datetime(["2026-01-01T01:00:00Z"]), "input_tokens": [2], "output_tokens": [1]})
    import duckdb

    duckdb.from_df(frame).write_parquet(str(tmp_path / "log.parquet"))
    assert ingest("requests", tmp_path / "log.parquet").tables["usage"].time.tolist() == [pd.Timestamp("2026-01-01 01:00")]


def test_ambiguous_decimal_is_asked_for(tmp_path):
    path = write(tmp_path, "grouped.csv", "timestamp;input_tokens;output_tokens\n2026-01-01;1,234;1\n")
    with pytest.raises(BookError, match="decimal comma or a thousands separator"):
        ingest("requests", path)
    assert ingest("requests", path, decimal=",").tables["requests"].input_tokens.tolist() == [1.234]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty"),
        (b"\n\n", "no header line"),
        (b"PK\x00\x03", "binary"),
        (b"timestamp,input_tokens,output_tokens\n", "no rows"),
    ],
)
def test_files_that_cannot_be_read(tmp_path, content, message):
    path = tmp_path / "file.csv"
    path.write_bytes(content)
    with pytest.raises(BookError, match=message):
        ingest("requests", path)


def test_missing_file_latin_1_and_broken_parquet(tmp_path):
    with pytest.raises(BookError, match="does not exist"):
        ingest("requests", tmp_path / "none.csv")
    path = write(tmp_path, "latin.csv", "timestamp,input_tokens,output_tokens,model\n2026-01-01,1,1,ä\n", "latin-1")
    with pytest.raises(BookError, match="not UTF-8"):
        ingest("requests", path)
    assert ingest("requests", path, encoding="latin-1").tables["usage"].workload.tolist() == ["ä"]
    broken = write(tmp_path, "x.parquet", "no parquet")
    with pytest.raises(BookError, match=r"x\.parquet"):
        ingest("requests", broken)


def test_options_are_checked_by_name_and_value(tmp_path):
    path = write(tmp_path, "log.csv", "timestamp,input_tokens,output_tokens\n2026-01-01,1,1\n")
    with pytest.raises(CapplanError, match="did you mean timezone"):
        ingest("requests", path, timezon="UTC")
    with pytest.raises(CapplanError, match="Europe/Berlin or UTC"):
        ingest("requests", path, timezone="Mars/Base")
    with pytest.raises(CapplanError, match="did you mean requests"):
        ingest("request", path)
    for name in FORMATS:
        assert "timezone" in options_of(name).model_fields


# ------------------------------------------------------------------------------------------------ rates


def test_rates_real_servegen(tmp_path):
    path = real("llm_demand/servegen_m-large_requests_per_second_10min.csv")
    found = ingest("rates", path, start="2026-01-05", workload="chat")
    usage, source = found.tables["usage"], pd.read_csv(path)
    assert len(usage) == 336  # 14 days
    assert usage.quantity.sum() == pytest.approx(600 * source.total_requests_per_second.sum(), rel=1e-12)
    assert usage.quantity.iloc[0] == pytest.approx(600 * source.total_requests_per_second[:6].sum(), rel=1e-12)
    assert_loads(found, tmp_path)


def test_rates_gaps_duplicates_and_lengths(tmp_path):
    def series(times, rates=None):
        rows = "\n".join(f"{time},{rate}" for time, rate in zip(times, rates or [1] * len(times), strict=True))
        return write(tmp_path, "rates.csv", f"time,rps\n{rows}\n")

    def at(minutes):
        return f"2026-01-01 {minutes // 60:02d}:{minutes % 60:02d}"

    gap = series([at(0), at(30), at(90), at(120)], [1, 3, 1, 1])
    with pytest.raises(BookError, match="1 intervals have no row or an empty rate, the first at 2026-01-01 01:00:00"):
        ingest("rates", gap)
    held = ingest("rates", gap, gaps="hold")
    assert held.tables["usage"].quantity.tolist() == [7200, 7200, 1800]
    with pytest.raises(BookError, match="an interval occurs twice"):
        ingest("rates", series([at(0), at(30), at(30)]))
    with pytest.raises(BookError, match="divide the hour"):
        ingest("rates", series([at(0), at(25), at(50)]))
    with pytest.raises(BookError, match="start every 1800 s"):
        ingest("rates", series([at(0), at(30), at(60), at(91)]))
    with pytest.raises(BookError, match="must not cross the hour"):
        ingest("rates", series([at(15), at(45), at(75)]))
    daily = ingest("rates", series(["2026-01-01", "2026-01-02"])).tables["usage"]
    assert daily.quantity.tolist() == [86400, 86400]


# ------------------------------------------------------------------------------------------------ jobs


def overlap_by_brute_force(jobs: pd.DataFrame, begin: str, seconds: str) -> pd.Series:
    """Add every job's overlap with every hour, one at a time."""
    found: dict[tuple[str, pd.Timestamp], float] = {}
    for job in jobs.itertuples():
        start = getattr(job, begin)
        end = start + pd.Timedelta(seconds=getattr(job, seconds))
        hour = start.floor("h")
        while hour < end:
            part = (min(end, hour + pd.Timedelta(hours=1)) - max(start, hour)).total_seconds()
            found[(job.team, hour)] = found.get((job.team, hour), 0.0) + part * job.accelerators / 3600
            hour += pd.Timedelta(hours=1)
    return pd.Series({key: value for key, value in found.items() if value})


def test_jobs_equal_brute_force(tmp_path):
    draw = np.random.default_rng(5)
    count = 300
    submit = pd.Timestamp("2026-01-01") + pd.to_timedelta(draw.integers(0, 10 * 86400, count), unit="s")
    wait = np.where(draw.random(count) < 0.5, 0, draw.integers(0, 20000, count))
    jobs = pd.DataFrame(
        {
            "job_id": [f"j{n}" for n in range(count)],
            "submit_time": submit,
            "start_time": submit + pd.to_timedelta(wait, unit="s"),
            "duration": draw.choice([0, 1, 3600, 7200, 5000, 200000], count),
            "gpus": draw.choice([1, 2, 8, 64], count),
            "team": draw.choice(["a", "b"], count),
        }
    )
    path = tmp_path / "jobs.csv"
    jobs.to_csv(path, index=False)
    found = ingest("jobs", path)
    usage = found.tables["usage"]
    want = overlap_by_brute_force(jobs.rename(columns={"gpus": "accelerators"}), "start_time", "duration")
    have = usage[usage.quantity > 0].set_index(["workload", "time"]).quantity.sort_index()
    np.testing.assert_allclose(have.to_numpy(), want.sort_index().to_numpy(), rtol=1e-12)
    assert usage.quantity.sum() == pytest.approx((jobs.duration * jobs.gpus).sum() / 3600, rel=1e-12)
    early = ingest("jobs", path, place="submit").tables["usage"]
    want = overlap_by_brute_force(jobs.rename(columns={"gpus": "accelerators"}), "submit_time", "duration")
    have = early[early.quantity > 0].set_index(["workload", "time"]).quantity.sort_index()
    np.testing.assert_allclose(have.to_numpy(), want.sort_index().to_numpy(), rtol=1e-12)
    for _, part in usage.groupby("workload"):
        assert (part.time.diff().dropna() == pd.Timedelta(hours=1)).all()
    assert_loads(found, tmp_path)


def test_jobs_real_philly(tmp_path):
    path = real("gpu_jobs/philly_jobs.csv.gz")
    found = ingest("jobs", path)
    source = pd.read_csv(path)
    assert len(found.tables["jobs"]) == len(source) == 82247
    assert found.tables["usage"].quantity.sum() == pytest.approx(source.gpu_time.sum() / 3600, rel=1e-12)
    by_team = found.tables["usage"].groupby("workload").quantity.sum()
    want = source.groupby("cluster").gpu_time.sum() / 3600
    np.testing.assert_allclose(by_team.to_numpy(), want.sort_index().to_numpy(), rtol=1e-12)
    assert len(found.tables["workloads"]) == 15  # virtual clusters
    assert any("does not say when jobs started" in note for note in found.notes)
    assert_loads(found, tmp_path)


def test_jobs_real_alibaba_pods():
    path = real("gpu_jobs/alibaba_gpu_v2023_pods.csv")
    found = ingest("jobs", path, start="2023-01-01", team="inference")
    source = pd.read_csv(path)
    source["held"] = source.num_gpu * source.gpu_milli / 1000
    ran = source[source.scheduled_time.notna()]
    used = ((ran.deletion_time - ran.scheduled_time) * ran.held).sum() / 3600
    usage = found.tables["usage"]
    assert usage.quantity.sum() == pytest.approx(used, rel=1e-9)
    never = source[source.scheduled_time.isna()]
    assert len(never) == 897  # pods that were never scheduled
    assert usage.queued_quantity.sum() == pytest.approx(((never.deletion_time - never.creation_time) * never.held).sum() / 3600, rel=1e-9)
    assert set(usage.workload) == {"inference"}
    assert found.tables["jobs"].start.isna().sum() == (never.held > 0).sum()


def test_jobs_faults_and_limits(tmp_path):
    path = write(tmp_path, "j.csv", "name,submit_time,start_time,end_time,gpus\na,2026-01-01 00:00,2026-01-01 02:00,2026-01-01 01:00,1\n")
    with pytest.raises(BookError, match="1 job ends before their start"):
        ingest("jobs", path)
    path = write(tmp_path, "n.csv", "name,submit_time,duration,gpus\na,2026-01-01,-5,1\n")
    assert faults_of(lambda: ingest("jobs", path))[0].value == "-5"
    path = write(tmp_path, "t.csv", "name,submit_time,duration,gpus\na,2026-01-01,60,1\na,2026-01-01,60,1\nb,2026-01-01,60,0\n")
    found = ingest("jobs", path)
    assert found.tables["jobs"].job_id.tolist() == ["a", "a#2"]
    assert any("1 job without accelerators" in note for note in found.notes)
    assert "jobs" not in ingest("jobs", path, maximum_jobs=1).tables
    path = write(tmp_path, "z.csv", "name,submit_time,duration,gpus\na,2026-01-01,0,1\n")
    with pytest.raises(BookError, match="no job used or waited"):
        ingest("jobs", path)
    path = write(tmp_path, "e.csv", "name,submit_time,gpus\na,2026-01-01,1\n")
    with pytest.raises(BookError, match="needs a duration or an end"):
        ingest("jobs", path)


SACCT = """JobID|Account|User|State|Submit|Start|End|Elapsed|AllocTRES|ReqTRES
100|vision|ann|COMPLETED|2026-03-01T08:00:00|2026-03-01T09:30:00|2026-03-02T11:30:00|1-02:00:00|billing=16,cpu=16,gres/gpu=4,gres/gpu:h100=4,mem=1T,node=1|cpu=16,gres/gpu=4
100.batch|vision||COMPLETED|2026-03-01T09:30:00|2026-03-01T09:30:00|2026-03-02T11:30:00|1-02:00:00|cpu=16,gres/gpu=4,mem=1T,node=1|
100.extern|vision||COMPLETED|2026-03-01T09:30:00|2026-03-01T09:30:00|2026-03-02T11:30:00|1-02:00:00|billing=16,cpu=16,gres/gpu=4|
101_1|vision|ann|FAILED|2026-03-01T08:00:00|2026-03-01T08:00:00|2026-03-01T08:45:00|00:45:00|cpu=4,gres/gpu:a100=1,gres/gpu:h100=1,node=1|cpu=4
101_[2-9%4]|vision|ann|PENDING|2026-03-01T08:00:00|Unknown|Unknown|00:00:00||cpu=4,gres/gpu=2
102|speech|"bob|RUNNING|2026-03-01T10:00:00|2026-03-01T10:00:00|Unknown|02:30:00|gres/gpu=8|gres/gpu=8
103|speech|bob|PENDING|2026-03-01T11:00:00|Unknown|Unknown|00:00:00||gres/gpu=16
104|speech|bob|CANCELLED by 1000|2026-03-01T11:00:00|None|2026-03-01T12:30:00|00:00:00||cpu=1,gres/gpu=2
105|speech|bob|COMPLETED|2026-03-01T11:00:00|2026-03-01T11:00:00|2026-03-01T11:10:00|00:10:00|cpu=32,mem=10G|cpu=32
"""


def test_slurm(tmp_path):
    found = ingest("slurm", write(tmp_path, "sacct.txt", SACCT), timezone="America/New_York")
    jobs, usage = found.tables["jobs"].set_index("job_id"), found.tables["usage"]
    assert jobs.index.tolist() == ["100", "101_1", "102", "103", "104"]
    assert jobs.accelerators.to_dict() == {"100": 4, "101_1": 2, "102": 8, "103": 16, "104": 2}
    assert jobs.duration_seconds["100"] == 26 * 3600
    assert jobs.submit["100"] == pd.Timestamp("2026-03-01 13:00")  # New York is five hours behind in winter
    assert jobs.start.isna().sum() == 2
    total = usage.groupby("workload")[["quantity", "queued_quantity"]].sum()
    assert total.quantity.to_dict() == pytest.approx({"vision": 26 * 4 + 0.75 * 2, "speech": 2.5 * 8})
    assert total.queued_quantity.to_dict() == pytest.approx({"vision": 0, "speech": 1.5 * 2})
    text = " ".join(found.notes)
    assert "2 job steps were skipped" in text
    assert "1 waiting array jobs were skipped" in text
    assert "1 job without accelerators" in text
    assert_loads(found, tmp_path)


def test_slurm_faults(tmp_path):
    bad = SACCT.replace("1-02:00:00|billing=16,cpu=16,gres/gpu=4,gres/gpu:h100", "1 day|billing=16,cpu=16,gres/gpu=4,gres/gpu:h100")
    fault = faults_of(lambda: ingest("slurm", write(tmp_path, "bad.txt", bad)))[0]
    assert (fault.row, fault.column, fault.value) == (2, "Elapsed", "1 day")
    thin = "JobID|Submit|Start|End\n1|2026-01-01T00:00:00|2026-01-01T00:00:00|2026-01-01T01:00:00\n"
    with pytest.raises(BookError, match="neither AllocTRES nor ReqTRES"):
        ingest("slurm", write(tmp_path, "thin.txt", thin))


# ------------------------------------------------------------------------------------------------ prices


def test_prices_real_aws(tmp_path):
    found = ingest("prices", real("gpu_prices/aws_accelerator_ondemand_1y_reserved_2026-01-21.csv"))
    offers = found.tables["offers"].set_index("offer_id")
    assert offers.usd_per_hour["aws-p4d.24xlarge-us-east-1-on-demand"] == 21.957642
    assert offers.usd_per_hour["aws-p4d.24xlarge-us-east-1-reserved-1y"] == pytest.approx(13.9211, abs=5e-5)
    assert offers.discounts["aws-p4d.24xlarge-us-east-1-reserved-1y"] == "units"
    assert set(offers.as_of) == {pd.Timestamp("2026-01-21")}
    skus = found.tables["skus"].set_index("sku")
    assert skus.accelerator["p4d.24xlarge"] == "A100-40GB"
    assert skus.accelerator["p4de.24xlarge"] == "A100-80GB"
    assert any("AMD Radeon Pro V520" in note for note in found.notes)
    assert_loads(found, tmp_path)


def test_prices_real_aws_three_years():
    path = real("gpu_prices/aws_accelerator_3y_reserved_annual_us-east-1.csv")
    with pytest.raises(BookError, match="on which day the figures held"):
        ingest("prices", path)
    offers = ingest("prices", path, as_of="2026-06-09").tables["offers"].set_index("offer_id")
    source = pd.read_csv(path).set_index("instance_type").annual_cost_3y_reserved_usd
    row = offers.loc["aws-p4d.24xlarge-us-east-1-reserved-3y"]
    assert row.usd_per_hour == pytest.approx(source["p4d.24xlarge"] / 8760, rel=1e-12)
    assert row.upfront_share == 1
    assert offers.discounts["aws-p5.48xlarge-us-east-1-savings-plan-3y"] == "usd_per_hour"


def test_prices_real_gcp():
    path = real("gpu_prices/gcp_accelerator_ondemand_spot_cud_2026-07-30.csv")
    found = ingest("prices", path)
    offers, source = found.tables["offers"].set_index("offer_id"), pd.read_csv(path)
    row = source[(source.machine_type == "a2-highgpu-1g") & (source.region == "us-central1")].iloc[0]
    assert offers.usd_per_hour["gcp-a2-highgpu-1g-us-central1-reserved-1y"] == pytest.approx(row.cud_1y_usd_per_month / 730, rel=1e-12)
    low = (source.spot_usd_per_hour < 0.2 * source.on_demand_usd_per_hour).sum()
    assert low == 453  # regions in which the source found no price of the accelerator
    assert any(f"{low} spot prices below 20%" in note for note in found.notes)
    assert "gcp-a2-highgpu-1g-africa-south1-spot" not in offers.index


def test_prices_real_neoclouds():
    found = ingest("prices", real("gpu_prices/neocloud_accelerator_prices.csv"), as_of="2026-10-01")
    offers, skus = found.tables["offers"].set_index("offer_id"), found.tables["skus"].set_index("sku")
    assert offers.usd_per_hour["nebius-gpu-h200-sxm_8gpu-128vcpu-1600gb-eu-west1-spot"] == 11.6
    assert offers.geography["nebius-gpu-h200-sxm_8gpu-128vcpu-1600gb-eu-west1-spot"] == "eu"
    assert offers.region["lambda-gpu_8x_h100_sxm5-any-on-demand"] == "any"
    assert skus.accelerator["crusoe-per-GPU-MI300X-192GB"] == "MI300X"
    assert offers.offer_id.is_unique if "offer_id" in offers else offers.index.is_unique


def test_prices_zero_and_unknown(tmp_path):
    text = "sku,accelerator,gpus,region,on_demand,spot\nm1,H100,8,eu-1,80,0\nm2,Abacus,1,eu-1,1,\nm3,H100,0.5,eu-1,1,\n"
    path = write(tmp_path, "sheet-2026-05-01.csv", text)
    with pytest.raises(BookError, match="who sells"):
        ingest("prices", path)
    found = ingest("prices", path, provider="Acme")
    assert found.tables["offers"].offer_id.tolist() == ["acme-m1-eu-1-on-demand"]
    notes = " ".join(found.notes)
    assert "1 price of zero (spot) was left out" in notes
    assert "Abacus" in notes
    assert "part of an accelerator" in notes
    bad = write(tmp_path, "bad-2026-05-01.csv", text.replace("80", "-80"))
    assert faults_of(lambda: ingest("prices", bad, provider="acme"))[0].value == "-80"


# ------------------------------------------------------------------------------------------------ FOCUS


def test_focus_real_sample(tmp_path):
    path = real("billing/focus_1.0_sample_1000.csv")
    found = ingest("focus", path)
    billing, source = found.tables["billing"], pd.read_csv(path)
    for column, original in (("billed_cost", "BilledCost"), ("effective_cost", "EffectiveCost"), ("list_cost", "ListCost")):
        want = source.groupby(source.BillingPeriodStart.str[:7])[original].sum()
        have = billing.groupby(billing.month.dt.strftime("%Y-%m"))[column].sum()
        np.testing.assert_allclose(have.to_numpy(), want.to_numpy(), atol=1e-9)
    assert set(billing.provider) == {"aws", "azure", "oci"}
    assert_loads(found, tmp_path)
    import duckdb

    parquet = tmp_path / "focus.parquet"
    duckdb.read_csv(str(path), all_varchar=True).write_parquet(str(parquet))
    again = ingest("focus", parquet).tables["billing"]
    pd.testing.assert_frame_equal(again, billing)


def test_focus_real_spec_examples():
    """Billed and effective cost of the specification's commitment examples (FOCUS 1.2, appendix)."""
    want = {  # file: billed, effective, effective of the unused part
        "commitment_discount_purchase_scenario_1": (8760.00, 0, 0),
        "commitment_discount_purchase_scenario_2": (3.00, 0, 0),
        "commitment_discount_purchase_scenario_3": (4381.50, 0, 0),
        "commitment_discount_usage_scenario_1": (0, 1.00, 0),
        "commitment_discount_usage_scenario_2": (0, 1.00, 1.00),
        "commitment_discount_usage_scenario_3": (0, 1.00, 0.25),
        "commitment_discount_usage_scenario_4": (0.50, 1.50, 0),
        "one_hundred_percent_utilization_with_commitment_discount_flexibility_with_1_resource": (2.75, 2.75, 0),
        "one_hundred_percent_utilization_with_commitment_discount_flexibility_with_2_resources": (2.00, 2.00, 0),
        "one_hundred_percent_utilization_without_commitment_discount_flexibility": (1.50, 1.50, 0),
        "zero_percent_utilization_without_commitment_discount_flexibility": (3.50, 3.50, 1.50),
    }
    for name, (billed, effective, unused) in want.items():
        billing = ingest("focus", real(f"billing/focus_spec_examples/{name}.csv"), provider="aws", currency="USD").tables["billing"]
        lost = billing.effective_cost[billing.commitment_status == "Unused"].sum()
        assert (billing.billed_cost.sum(), billing.effective_cost.sum(), lost) == pytest.approx((billed, effective, unused), abs=1e-12), (
            name
        )


FOCUS = (
    "BillingPeriodStart,ChargePeriodStart,ChargePeriodEnd,ChargeCategory,BilledCost,EffectiveCost,BillingCurrency,ProviderName,ServiceName,"
    "SubAccountName,RegionId,SkuId,CommitmentDiscountStatus,ConsumedQuantity,ConsumedUnit,ChargeDescription\n"
)


def test_focus_usage_of_known_machines(tmp_path):
    rows = [
        ("01T00", "01T01", "Usage", 21.96, "NULL", 1, "Hours", "$21.96 per On Demand Linux p4d.24xlarge Instance Hour"),
        ("01T02", "01T03", "Usage", 43.92, "NULL", 2, "Hours", "$21.96 per On Demand Linux p4d.24xlarge Instance Hour"),
        ("01T02", "01T03", "Usage", 1.00, "NULL", 1, "Hours", "$1.00 per t3.large Instance Hour"),
        ("01T02", "01T03", "Usage", 9.00, "Unused", 1, "Hours", "unused p4d.24xlarge reservation"),
        ("01T02", "01T03", "Usage", 0.10, "NULL", 5, "GB", "p4d.24xlarge local traffic"),
    ]
    text = FOCUS + "".join(
        f"2026-01-01T00:00:00Z,2026-01-{start}:00:00Z,2026-01-{end}:00:00Z,{kind},{cost},{cost},USD,AWS,EC2,research,us-east-1,X,{status},{amount},{unit},{words}\n"
        for start, end, kind, cost, status, amount, unit, words in rows
    )
    found = ingest("focus", write(tmp_path, "bill.csv", text))
    usage = found.tables["usage"]
    assert usage.quantity.tolist() == [8, 0, 16]  # a p4d.24xlarge has eight accelerators; an hour without a charge is zero
    assert usage.workload.unique().tolist() == ["research"]
    assert usage.region.unique().tolist() == ["us-east-1"]
    assert "usage" not in ingest("focus", tmp_path / "bill.csv", usage=False).tables


def test_focus_money_is_exact_over_many_rows(tmp_path):
    row = "2026-01-01T00:00:00Z,2026-01-01T00:00:00Z,2026-01-01T01:00:00Z,Usage,0.01,0.01,USD,AWS,S3,a,NULL,X,NULL,1,GB,storage\n"
    found = ingest("focus", write(tmp_path, "bill.csv", FOCUS + row * 30_000))
    assert found.tables["billing"].billed_cost.tolist() == [300.0]


def test_focus_faults(tmp_path):
    row = "2026-01-01T00:00:00Z,2026-01-01T00:00:00Z,2026-01-01T01:00:00Z,Usage,0.01,0.01,USD,AWS,S3,a,NULL,X,NULL,1,GB,storage\n"
    with pytest.raises(BookError, match="none of Usage, Purchase, Tax, Credit, Adjustment"):
        ingest("focus", write(tmp_path, "c.csv", FOCUS + row.replace("Usage", "Fee")))
    with pytest.raises(BookError, match="three capital letters"):
        ingest("focus", write(tmp_path, "m.csv", FOCUS + row.replace("USD", "dollars")))
    with pytest.raises(BookError, match="Give currency= instead"):
        ingest("focus", write(tmp_path, "n.csv", (FOCUS + row).replace("BillingCurrency", "x_Currency")))


# ------------------------------------------------------------------------------------------------ writing into a book


def log(folder: Path, name: str, hours: dict[int, int], workload: str = "chat") -> Path:
    rows = "".join(f"2026-01-01T{hour:02d}:00:00Z,1,1,{workload}\n" * count for hour, count in hours.items())
    return write(folder, name, "timestamp,input_tokens,output_tokens,model\n" + rows)


def test_into_a_book_adds_and_replaces_by_key(tmp_path):
    book = tmp_path / "book"
    book.mkdir()
    ingest("requests", log(tmp_path, "a.csv", {0: 1, 1: 2}), book)
    found = ingest("requests", log(tmp_path, "b.csv", {1: 5, 2: 3}), book)
    usage, faults = read_table(book / "usage.csv", "usage")
    assert not faults
    assert usage.quantity.tolist() == [1, 5, 3]  # two rows of that hour are in both files, and count once
    assert any("usage.csv: 1 row added, 1 with a known key replaced" in note for note in found.notes)
    before = (book / "usage.csv").read_bytes()
    ingest("requests", tmp_path / "b.csv", book)
    assert (book / "usage.csv").read_bytes() == before
    ingest("requests", log(tmp_path, "c.csv", {7: 4}, "search"), book, replace=True)
    usage, _ = read_table(book / "usage.csv", "usage")
    assert usage.workload.tolist() == ["search"]
    workloads, _ = read_table(book / "workloads.csv", "workloads")
    assert workloads.workload.tolist() == ["chat", "search"]  # shared tables are never replaced


def test_the_books_own_words_stay(tmp_path):
    write(tmp_path, "workloads.csv", "workload,stage,unit,team\nchat,serving,requests,=cmd|' /C calc'!A0\n")
    ingest("requests", log(tmp_path, "a.csv", {0: 1}), tmp_path)
    workloads, _ = read_table(tmp_path / "workloads.csv", "workloads")
    assert workloads.team.tolist() == ["=cmd|' /C calc'!A0"]
    with pytest.raises(BookError, match="the file counts chat in tokens"):
        ingest("requests", tmp_path / "a.csv", tmp_path, unit="tokens")


def test_a_broken_book_or_a_crash_changes_nothing(tmp_path, monkeypatch):
    path = log(tmp_path, "a.csv", {0: 1})
    with pytest.raises(CapplanError, match="capplan new"):
        ingest("requests", path, tmp_path / "nowhere")
    book = tmp_path / "book"
    book.mkdir()
    ingest("requests", path, book)
    good = {str(file): file.read_bytes() for file in book.rglob("*") if file.is_file()}
    (book / "usage.csv").write_text("time,workload,quantity\n2026-01-01,chat,minus one\n")
    with pytest.raises(BookError, match=r"usage\.csv"):
        ingest("requests", log(tmp_path, "b.csv", {5: 1}), book)
    (book / "usage.csv").write_bytes(good[str(book / "usage.csv")])
    written = []
    real_fsync = os.fsync

    def fail(descriptor):
        written.append(descriptor)
        if len(written) > 1:
            raise OSError("disk full")
        real_fsync(descriptor)

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        ingest("requests", tmp_path / "b.csv", book)
    assert {str(file): file.read_bytes() for file in book.rglob("*") if file.is_file()} == good


def test_tables_are_checked_before_they_are_written(tmp_path):
    frame = pd.DataFrame({"time": [pd.Timestamp("2026-01-01")], "workload": ["a"], "region": ["any"], "quantity": [-1.0]})
    with pytest.raises(BookError, match=r"usage\.csv, row 2, column quantity"):
        write_tables({"usage": frame}, tmp_path)
    assert not list(tmp_path.iterdir())


def test_merge_keeps_order_and_every_other_column():
    old = pd.DataFrame({"currency": ["EUR", "GBP"], "date": pd.to_datetime(["2026-01-01", "2026-01-01"]), "usd": [1.1, 1.3]})
    new = pd.DataFrame({"currency": ["GBP", "JPY"], "date": pd.to_datetime(["2026-01-01", "2026-01-01"]), "usd": [1.25, 0.0067]})
    joined, both = merge(old, new, "fx")
    assert both == 1
    assert joined.usd.tolist() == [1.1, 1.25, 0.0067]
    assert list(joined.columns) == list(TABLES["fx"].to_schema().columns)


def test_old_traces_can_be_placed_in_the_books_time_and_bills_cannot(tmp_path):
    path = write(tmp_path, "jobs.csv", "name,submit_time,duration,gpus\na,2017-01-02,3600,2\n")
    found = ingest("jobs", path, shift_days=365, accelerator="H100")
    assert found.tables["jobs"].submit.tolist() == found.tables["usage"].time.tolist() == [pd.Timestamp("2018-01-02")]
    assert found.tables["speeds"].work_per_accelerator_hour.tolist() == [1.0]
    assert any("not the days on which this was measured" in note for note in found.notes)
    row = (
        "2026-01-01T00:00:00Z,2026-01-01T00:00:00Z,2026-01-01T01:00:00Z,Usage,1,1,USD,AWS,EC2,a,NULL,X,NULL,1,Hours,p4d.24xlarge Instance"
        " Hour\n"
    )
    bill = ingest("focus", write(tmp_path, "bill.csv", FOCUS + row), shift_days=10)
    assert bill.tables["billing"].month.tolist() == [pd.Timestamp("2026-01-01")]
    assert bill.tables["usage"].time.tolist() == [pd.Timestamp("2026-01-11")]
