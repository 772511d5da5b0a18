"""What tells how well jobs were placed: Slurm's used resources and node lists, and telemetry of DCGM, up to the diagnosis."""

from __future__ import annotations

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capplan.answers.placement import diagnosis_of
from capplan.book.book import load_book
from capplan.errors import BookError
from capplan.ingest import ingest
from capplan.ingest.hosts import expanded, racks_of

NODES = "node,accelerator,accelerator_count,nodes,domain,usd_per_hour\ngpu[001-004],H100,8,4,r1,40\ngpu7,H100,8,1,r2,40\nold,A100,8,2,,20\n"
#: 10 hours each; job 1 at 350 % of 8 GPUs in one rack, job 2 on two racks with data on a parallel file system, job 3 busy.
SACCT = """JobID|Account|State|Submit|Start|End|Elapsed|AllocTRES|NTasks|NodeList|TRESUsageInTot
1|a|COMPLETED|2026-03-01T08:00:00|2026-03-01T08:00:00|2026-03-01T18:00:00|10:00:00|gres/gpu=8||gpu001|
1.batch|a|COMPLETED|2026-03-01T08:00:00|2026-03-01T08:00:00|2026-03-01T18:00:00|10:00:00|gres/gpu=8|1|gpu001|cpu=01:00:00,gres/gpuutil=0
1.0|a|COMPLETED|2026-03-01T08:00:00|2026-03-01T08:00:00|2026-03-01T18:00:00|05:00:00|gres/gpu=8|8|gpu001|cpu=01:00:00,gres/gpuutil=560,fs/disk=100
2|a|COMPLETED|2026-03-01T08:00:00|2026-03-01T08:00:00|2026-03-01T18:00:00|10:00:00|gres/gpu=16||gpu[004,7]|
2.0|a|COMPLETED|2026-03-01T08:00:00|2026-03-01T08:00:00|2026-03-01T18:00:00|10:00:00|gres/gpu=16|16|gpu[004,7]|gres/gpuutil=1440,fs/disk=1K,fs/lustre=2T
3|a|COMPLETED|2026-03-01T08:00:00|2026-03-01T08:00:00|2026-03-01T18:00:00|10:00:00|gres/gpu=8||elsewhere|
"""


def book_with(tmp_path, **tables):
    folder = tmp_path / "book"
    folder.mkdir(exist_ok=True)
    (folder / "book.yaml").write_text("name: b\n")
    for name, text in tables.items():
        (folder / f"{name}.csv").write_text(text)
    return folder


def write(tmp_path, name, text):
    path = tmp_path / name
    path.write_text(text)
    return path


def test_slurm_says_how_busy_jobs_were_where_they_stood_and_where_their_data_lay(tmp_path):
    book = book_with(tmp_path, nodes=NODES)
    found = ingest("slurm", write(tmp_path, "sacct.txt", SACCT), book)
    jobs = found.tables["jobs"].set_index("job_id")
    # 560 % of eight GPUs for half of the time; 1,440 % of sixteen for all of it
    assert jobs["utilisation_share"].tolist()[:2] == pytest.approx([0.35, 0.9])
    assert jobs["racks"].tolist()[:2] == [1.0, 2.0]
    assert jobs["storage"].tolist()[:2] == [None, "network"]
    assert jobs.loc["3", ["utilisation_share", "racks"]].isna().all()
    assert any("1 of 3 lists of nodes name hosts" in note for note in found.notes)
    assert ingest("slurm", tmp_path / "sacct.txt").tables["jobs"].columns.tolist() == [
        name for name in jobs.reset_index() if name != "racks"
    ]
    average = SACCT.replace("TRESUsageInTot", "TRESUsageInAve").replace("gpuutil=560", "gpuutil=70").replace("gpuutil=1440", "gpuutil=90")
    found = ingest("slurm", write(tmp_path, "average.txt", average))
    assert found.tables["jobs"]["utilisation_share"].tolist()[:2] == pytest.approx([0.35, 0.9])


LONG = """timestamp,hpc_job,gpu,DCGM_FI_DEV_GPU_UTIL
2026-03-01T08:00:00,1,0,20
2026-03-01T08:00:00,1,1,40
2026-03-01T08:30:00,1,0,60
2026-03-01T09:00:00,1,0,10
2026-03-01T09:00:00,,1,99
2026-03-01T08:00:00,9,0,50
"""
UTIL = '"DCGM_FI_DEV_GPU_UTIL{gpu=""%d"",%sjob=""dcgm""}"'
WIDE = (
    ",".join(["Time", UTIL % (0, 'hpc_job=""1"",'), UTIL % (1, 'hpc_job=""1"",'), UTIL % (2, "")])
    + """
2026-03-01 08:00:00,20,40,7
2026-03-01 08:30:00,60,,7
2026-03-01 09:00:00,10,,7
"""
)
PLAIN = "time,1,2\n2026-03-01 08:00:00,0.4,0.9\n2026-03-01 09:00:00,0.1,\n"


@pytest.mark.parametrize(("text", "jobs"), [(LONG, ["1", "9"]), (WIDE, ["1"]), (PLAIN, ["1", "2"])], ids=["long", "wide", "by job"])
def test_telemetry_is_read_long_and_wide(tmp_path, text, jobs):
    table = ingest("telemetry", write(tmp_path, "util.csv", text)).tables["telemetry"]
    assert sorted(table["job_id"].unique()) == jobs
    mine = table[table["job_id"] == "1"]
    assert mine["time"].tolist() == [pd.Timestamp("2026-03-01 08:00"), pd.Timestamp("2026-03-01 09:00")]
    assert mine["utilisation_share"].tolist() == pytest.approx([0.4, 0.1])


def test_other_metrics_and_units_are_told_apart(tmp_path):
    text = (
        "time,job_id,__name__,value\n2026-03-01,1,DCGM_FI_DEV_GPU_UTIL,80\n2026-03-01,1,DCGM_FI_DEV_FB_USED,70000\n"
        "2026-03-01,2,DCGM_FI_PROF_SM_ACTIVE,0.3\n"
    )
    found = ingest("telemetry", write(tmp_path, "m.csv", text))
    assert found.tables["telemetry"]["utilisation_share"].tolist() == pytest.approx([0.8, 0.3])
    assert "dcgm_fi_dev_fb_used" in " ".join(found.notes)
    unknown = write(tmp_path, "u.csv", "time,job_id,utilisation\n2026-03-01,1,1\n2026-03-01,2,0.5\n")
    assert ingest("telemetry", unknown).tables["telemetry"]["utilisation_share"].tolist() == [1.0, 0.5]
    assert ingest("telemetry", unknown, unit="percent").tables["telemetry"]["utilisation_share"].tolist() == pytest.approx([0.01, 0.005])


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("time,job_id,utilisation\n2026-03-01,1,x\n", {}, "a number is needed"),
        ("time,job_id,utilisation\n2026-03-01,1,-1\n", {}, "at least 0"),
        ("time,job_id,utilisation\n2026-03-01,1,250\n", {}, "above 100 %"),
        ("time,job_id,utilisation\n2026-03-01,1,50\n", {"unit": "share"}, "above 100 %"),
        ("time,job_id,utilisation\n2026-03-01,,50\n", {}, "no row has a time, a job and a utilisation"),
        ('time,"{gpu=""0""}"\n2026-03-01,1\n', {}, "no column names a job"),
        ("when,job_id,utilisation\n2026-03-01,1,50\n", {}, "no column for time"),
    ],
)
def test_bad_telemetry_has_one_message(tmp_path, text, options, message):
    with pytest.raises(BookError, match=message) as error:
        ingest("telemetry", write(tmp_path, "bad.csv", text), **options)
    assert len(error.value.faults) == 1


def test_what_was_ingested_is_diagnosed(tmp_path):
    """Job 1 is scattered and idle by telemetry, which goes before what Slurm says."""
    workloads = "workload,stage,unit\na,data_preparation,accelerator_hours\n"
    book = book_with(tmp_path, nodes=NODES, workloads=workloads)
    ingest("slurm", write(tmp_path, "sacct.txt", SACCT), book)
    with pytest.raises(BookError, match="no job of the file is in the table jobs"):
        ingest("telemetry", write(tmp_path, "other.csv", PLAIN.replace("1,2", "x,y")), book)
    found = ingest("telemetry", write(tmp_path, "util.csv", LONG.replace(",9,", ",99,")), book)
    assert "1 job is not in the table jobs" in " ".join(found.notes)
    loaded = load_book(book)
    signs = diagnosis_of(loaded, loaded.scenario_with()).signs
    assert sorted(zip(signs["job_id"], signs["sign"], strict=True)) == [
        ("1", "low_utilisation"),
        ("2", "network_storage"),
        ("2", "scattered"),
    ]
    assert signs.set_index(["job_id", "sign"]).loc[("1", "low_utilisation"), "evidence"] == "utilisation 25% against 70%"


def test_racks_come_from_names_lists_and_counts():
    nodes = pd.DataFrame({"node": ["gpu[1-2]", "big", "solo"], "nodes": [2, 3, 1], "domain": ["r1", "r2", None]})
    found = racks_of(["gpu[1-2]", "gpu1,big-2", "solo,gpu2", "big-3", "gpu["], nodes)
    assert found["racks"].fillna(-1).tolist() == [1, 2, 2, -1, -1]


@given(st.lists(st.tuples(st.sampled_from(["gpu", "r1-n", "x"]), st.integers(0, 300), st.integers(0, 20), st.integers(1, 4)), min_size=1))
def test_lists_of_hosts_have_as_many_hosts_as_their_ranges(parts):
    text = ",".join(f"{name}[{first:0{width}d}-{first + more:0{width}d}]" for name, first, more, width in parts)
    names = [f"{name}{number:0{width}d}" for name, first, more, width in parts for number in range(first, first + more + 1)]
    assert expanded(text) == names
