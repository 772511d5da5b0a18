"""Logs of vLLM servers as they are printed, and every profile that `ingest auto` knows by name."""

from __future__ import annotations

import gzip

import pytest

from capplan.errors import BookError
from capplan.ingest import ingest
from capplan.ingest.forms import form_of

START = (
    "INFO 12-31 23:58:00 [core.py:58] Initializing a V1 LLM engine (v0.10.1) with config: model='meta-llama/Llama-3.1-70B-Instruct', tp=8\n"
)
RUNNING = ", Running: 1 reqs, Waiting: 0 reqs, GPU KV cache usage: 0.1%"
#: As version 0.10 prints it: numbered engines, Waiting, a process in front of some lines.
NEW = START + (
    "INFO 12-31 23:59:30 [async_llm.py:269] Added request chatcmpl-1.\n"
    '(APIServer pid=7) INFO:     10.0.0.1:5000 - "POST /v1/chat/completions HTTP/1.1" 200 OK\n'
    f"INFO 12-31 23:59:40 [loggers.py:118] Engine 000: Avg prompt throughput: 100.0 tokens/s"
    f", Avg generation throughput: 50.0 tokens/s{RUNNING}, Prefix cache hit rate: 0.0%\n"
    f"(EngineCore_0 pid=9) INFO 12-31 23:59:50 [loggers.py:118] Engine 000: Avg prompt throughput: 0.0 tokens/s"
    f", Avg generation throughput: 70.5 tokens/s{RUNNING}\n"
    f"INFO 12-31 23:59:50 [loggers.py:118] Engine 001: Avg prompt throughput: 10.0 tokens/s"
    f", Avg generation throughput: 5.0 tokens/s{RUNNING}\n"
    "INFO 01-01 00:20:00 [async_llm.py:269] Added request chatcmpl-2.\n"
    "INFO 01-01 00:20:00 [async_llm.py:269] Added request chatcmpl-3.\n"
    f"INFO 01-01 00:20:10 [loggers.py:118] Engine 000: Avg prompt throughput: 20.0 tokens/s"
    f", Avg generation throughput: 30.0 tokens/s{RUNNING}\n"
)
#: As version 0.5 printed it, with the instant that a container puts in front.
OLD = "".join(
    f"2026-09-01T10:00:{second:02d}.120Z INFO 09-01 12:00:{second:02d} metrics.py:345] Avg prompt throughput: 30.0 tokens/s, Avg generation"
    " throughput: 40.0 tokens/s, Running: 1 reqs, Swapped: 0 reqs, Pending: 0 reqs, GPU KV cache usage: 0.1%, CPU KV cache usage: 0.0%.\n"
    for second in (5, 10, 15)
)


def test_printed_lines_of_two_engines_over_new_year(tmp_path):
    path = tmp_path / "server.log"
    path.write_text(NEW)
    found = ingest("auto", path, start="2026-12-01")
    assert any("the log of a vLLM server as it is printed: ingest vllm" in note for note in found.notes)
    usage = found.tables["usage"]
    assert usage.workload.unique().tolist() == ["Llama-3.1-70B-Instruct"]
    assert usage.time.dt.strftime("%Y-%m-%dT%H").tolist() == ["2026-12-31T23", "2027-01-01T00"]
    assert usage.quantity.tolist() == pytest.approx([10 * (50 + 70.5 + 5), 10 * 30])
    requests = found.tables["requests"]
    assert requests.requests.tolist() == [1, 2]
    assert requests.input_tokens.tolist() == pytest.approx([10 * 110, 10 * 20])
    assert ingest("vllm", path, start="2026-12-01", unit="requests").tables["usage"].quantity.tolist() == [1, 2]
    scaled = ingest("vllm", path, start="2026-12-01", unit="tokens", scale="input_tokens=0.5").tables["usage"]
    assert scaled.quantity.tolist() == pytest.approx([0.5 * 1100 + 1255, 0.5 * 200 + 300])
    local = ingest("vllm", path, start="2026-12-01", timezone="Asia/Tokyo").tables["usage"]
    assert local.time.dt.strftime("%Y-%m-%dT%H").tolist() == ["2026-12-31T14", "2026-12-31T15"]


def test_earlier_versions_and_containers_with_the_year_in_front(tmp_path):
    path = tmp_path / "chat-2026-09-01.log.gz"
    with gzip.open(path, "wt") as log:
        log.write(OLD)
    usage = ingest("auto", path).tables["usage"]
    assert usage.time.dt.strftime("%Y-%m-%dT%H").tolist() == ["2026-09-01T10"]
    assert usage.quantity.tolist() == pytest.approx([3 * 5 * 40])


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        (NEW, {}, "without a year"),
        (START, {"start": "2026-01-01"}, "no line states rates"),
        (NEW, {"start": "2026-01-01", "columns": "time=x"}, "no columns"),
        (OLD, {"unit": "requests"}, "does not name each request"),
        (NEW.replace("12-31 23:59", "02-29 23:59"), {"start": "2026-01-01"}, "02-29 is no day of 2026"),
    ],
)
def test_what_a_log_does_not_say_is_asked_for(tmp_path, text, options, said):
    path = tmp_path / "server.log"
    path.write_text(text)
    with pytest.raises(BookError, match=said):
        ingest("vllm", path, **options)


#: Whose export, its columns and a row, the format, and what comes of it.
PROFILES = {
    "Philly": ("cluster,submit_time,gpus,duration,gpu_time", "a,2026-01-01 00:00:00,2,3600,7200", "jobs", 2.0),
    "Alibaba": (
        "name,cpu_milli,num_gpu,gpu_milli,qos,pod_phase,creation_time,deletion_time,scheduled_time",
        "p,4000,1,500,LS,Succeeded,2026-01-01 00:00:00,2026-01-01 02:00:00,2026-01-01 00:00:00",
        "jobs",
        1.0,
    ),
    "Helios": (
        "job_id,user,vc,gpu_num,cpu_num,state,submit_time,start_time,end_time,duration,queue",
        "j,u,v,4,8,COMPLETED,2026-01-01 00:00:00,2026-01-01 00:00:00,2026-01-01 01:00:00,3600,0",
        "jobs",
        4.0,
    ),
    "PAI": (
        "job_name,task_name,inst_num,status,start_time,end_time,plan_cpu,plan_mem,plan_gpu,gpu_type",
        "j,worker,3,Terminated,2026-01-01 00:00:00,2026-01-01 02:00:00,600,29,50,T4\nk,ps,1,Failed,2026-01-01 00:00:00,,600,29,,",
        "jobs",
        3.0,
    ),
    "2025": (
        "instance_sn,role,app_name,gpu_request,creation_time,scheduled_time,deletion_time",
        "a,HN,x,1,,,2026-01-01 01:00:00\nb,HN,x,2,2026-01-01 00:00:00,2026-01-01 00:00:00,",
        "jobs",
        3.0,
    ),
    "Azure": ("TIMESTAMP,ContextTokens,GeneratedTokens", "2026-01-01 00:00:00.123,400,20", "requests", 1.0),
    "Mooncake": ("timestamp,input_length,output_length,hash_ids", "0,400,20,[1]", "requests", 1.0),
    "OpenTelemetry": (
        "start_time_unix_nano,gen_ai.usage.input_tokens,gen_ai.usage.output_tokens,gen_ai.request.model,status.code,error.type",
        "1788220800000000000,5,1,m,STATUS_CODE_OK,",
        "requests",
        1.0,
    ),
    "GRES": (
        "JobID|Account|Submit|Start|End|AllocGRES|Nodes",
        "1|a|2026-01-01T00:00:00|2026-01-01T00:00:00|2026-01-01T02:00:00|gpu:4|2",
        "slurm",
        16.0,
    ),
}


@pytest.mark.parametrize("name", PROFILES)
def test_profiles_are_recognised_and_read(tmp_path, name):
    columns, row, format, quantity = PROFILES[name]
    path = tmp_path / "export.csv"
    path.write_text(f"{columns}\n{row}\n")
    taken = form_of(path)
    assert (taken.format, name in taken.name) == (format, True)
    found = ingest("auto", path, **({"start": "2026-01-01"} if name == "Mooncake" else {}))
    assert found.tables["usage"].quantity.sum() == pytest.approx(quantity)


def test_a_vantage_list_and_unknown_columns(tmp_path):
    path = tmp_path / "vantage-aws-2026-09-01.csv"
    path.write_text("Name,API Name,GPUs,Linux On Demand cost,Something New,Region\nP5,p5.48xlarge,8,$55.04 hourly,x,us-east-1\n")
    assert form_of(path).name == "a Vantage price list"
    offers = ingest("auto", path, provider="aws").tables["offers"]
    assert offers.set_index("term").usd_per_hour.to_dict() == {"on_demand": 55.04}
    path.write_text(path.read_text().replace("$55.04 hourly", "€55.04 hourly"))
    with pytest.raises(BookError, match="a number is needed"):
        ingest("prices", path, provider="aws", columns="on_demand=Linux On Demand cost,sku=API Name")


def test_traces_of_one_object_a_line(tmp_path):
    seconds = '{"chat_id": 1, "timestamp": 3600.5, "input_length": 6, "output_length": 5, "hash_ids": [0]}\n'
    (tmp_path / "qwen.jsonl").write_text(seconds.replace("3600.5", "1.5") + seconds)
    assert len(ingest("auto", tmp_path / "qwen.jsonl", start="2026-01-01").tables["usage"]) == 2
    spend = (
        '[{"request_id": "r", "spend": 1, "startTime": "2026-01-01T00:00:05Z", "prompt_tokens": 5, "completion_tokens": 1, "metadata": {}}]'
    )
    (tmp_path / "spend.json").write_text(spend)
    found = ingest("auto", tmp_path / "spend.json")
    assert "LiteLLM" in found.notes[0]
    assert found.tables["usage"].quantity.tolist() == [1]
    lines = (
        '{"timestamp": 0, "input_length": 6758, "output_length": 500, "hash_ids": [0, 1]}\n'
        + '{"timestamp": 3000, "input_length": 7, "output_length": 5, "hash_ids": [0]}\n'
    )
    for name in ("conversation_trace.jsonl", "conversation_trace.jsonl.gz"):
        with (gzip.open if name.endswith(".gz") else open)(tmp_path / name, "wt") as file:
            file.write(lines)
        found = ingest("auto", tmp_path / name, start="2026-01-01")
        assert "is taken for a Mooncake trace" in found.notes[0]
        assert found.tables["requests"][["requests", "input_tokens", "output_tokens"]].to_numpy().tolist() == [[2.0, 6765.0, 505.0]]
        assert found.tables["usage"].workload.tolist() == ["conversation_trace"]
    (tmp_path / "broken.jsonl").write_text(lines + "{broken\n")
    with pytest.raises(BookError, match=r"broken\.jsonl"):
        ingest("requests", tmp_path / "broken.jsonl", start="2026-01-01")
