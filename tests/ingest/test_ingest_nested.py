"""JSON whose rows lie inside of others, and rows that stand for many requests: OpenTelemetry, Philly, Azure's prices, LiteLLM by day."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from capplan.errors import CapplanError
from capplan.ingest import ingest

START = 1_788_220_800_000_000_000  # 2026-09-01, in nanoseconds


def held(**values: object) -> list[dict[str, object]]:
    kinds = {str: "stringValue", int: "intValue", float: "doubleValue"}
    return [{"key": key.replace("__", "."), "value": {kinds[type(value)]: value}} for key, value in values.items()]


def span(minute: int, status: dict[str, object] | None = None, **values: object) -> dict[str, object]:
    begin = START + minute * 60 * 10**9
    return {
        "spanId": f"{minute:016x}",
        "startTimeUnixNano": str(begin),
        "endTimeUnixNano": str(begin + 10**9),
        "attributes": held(**values),
        "status": status or {},
    }


def batch(*spans: dict[str, object], service: str = "gateway") -> dict[str, object]:
    return {
        "resourceSpans": [{"resource": {"attributes": held(service__name=service)}, "scopeSpans": [{"scope": {}, "spans": list(spans)}]}]
    }


def call(minute: int, read: int, wrote: int, **more: object) -> dict[str, object]:
    return span(minute, gen_ai__usage__input_tokens=read, gen_ai__usage__output_tokens=wrote, gen_ai__operation__name="chat", **more)


def lines(path: Path, *objects: object) -> Path:
    path.write_text("".join(json.dumps(each) + "\n" for each in objects))
    return path


def test_traces_of_a_collector_are_calls_of_models(tmp_path):
    failed = span(50, {"code": 2}, gen_ai__usage__input_tokens=9, gen_ai__usage__output_tokens=0)
    web = span(3, http__response__status_code=200)
    tool = call(4, 7, 7)
    tool["attributes"][2]["value"]["stringValue"] = "execute_tool"
    path = lines(tmp_path / "traces.json", batch(call(0, 500, 100), web, tool), batch(call(10, 300, 50), failed, service="search"))
    found = ingest("auto", path)
    assert any("taken for OpenTelemetry spans of model calls" in note for note in found.notes)
    assert any("2 requests were served by the model; 1 failed" in note for note in found.notes)
    assert any("2 rows are no calls of a model" in note for note in found.notes)
    tokens = found.tables["requests"].set_index("workload")[["requests", "input_tokens", "output_tokens"]]
    assert tokens.loc["gateway"].tolist() == [1, 500, 100]
    assert tokens.loc["search"].tolist() == [1, 300, 50]
    whole = tmp_path / "one-object.json"
    whole.write_text(json.dumps(batch(call(0, 500, 100), call(10, 300, 50)), indent=2))
    assert ingest("auto", whole).tables["requests"].output_tokens.sum() == 150


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"resourceSpans": []}', "it has no spans"),
        ('{"resourceSpans": "none"}', "it has no spans"),
        ('{"resourceMetrics": []}', "it has no requests and tokens of models"),
        (json.dumps(batch(span(0, http__response__status_code=200))), "those of no form that capplan knows"),
        ('{"resourceSpans": [', "broken"),
        ('{"Items": [], "Count": 0}', "it has no prices of an hour"),
        ('{"Items": [{"armSkuName": "Standard_D2s_v5", "currencyCode": "EUR"}]}', "prices in EUR are no US dollars"),
    ],
)
def test_what_cannot_be_read_is_said(tmp_path, text, message):
    (tmp_path / "broken-2026-09-01.json").write_text(text)
    with pytest.raises(CapplanError, match=message):
        ingest("auto", tmp_path / "broken-2026-09-01.json")


def attempt(begin: str, end: str, *gpus: int) -> dict[str, object]:
    machines = [{"ip": f"m{place}", "gpus": [f"gpu{each}" for each in range(count)]} for place, count in enumerate(gpus)]
    return {"start_time": f"2026-10-09 {begin}", "end_time": f"2026-10-09 {end}" if end != "None" else end, "detail": machines}


def test_attempts_of_philly_are_the_work_that_was_done(tmp_path):
    def job(name: str, *attempts: dict[str, object]) -> dict[str, object]:
        told = {"status": "Pass", "vc": "vision", "jobid": name, "submitted_time": "2026-10-09 07:00:00", "user": "u"}
        return {**told, "attempts": list(attempts)}

    jobs = [
        job("a", attempt("08:00:00", "10:00:00", 2)),
        job("b", attempt("08:00:00", "09:00:00", 8, 8), attempt("10:00:00", "11:00:00", 4)),
        job("c"),
        job("d", attempt("08:00:00", "None", 1)),
    ]
    (tmp_path / "cluster_job_log").write_text(json.dumps(jobs, indent=1))
    found = ingest("auto", tmp_path / "cluster_job_log")
    assert found.tables["usage"].set_index("time").quantity.tolist() == [18, 2, 4]
    assert set(found.tables["jobs"].job_id) == {"a", "b", "b#2", "d"}
    assert any("1 job without accelerators" in note for note in found.notes)


def item(price: float, **more: object) -> dict[str, object]:
    plain = {
        "currencyCode": "USD",
        "retailPrice": price,
        "armRegionName": "eastus",
        "meterName": "ND96isr H100 v5",
        "productName": "Virtual Machines NDsr H100 v5 Series",
        "skuName": "ND96isr H100 v5",
        "unitOfMeasure": "1 Hour",
        "type": "Consumption",
        "armSkuName": "Standard_ND96isr_H100_v5",
    }
    return {**plain, **more}


def test_prices_of_azures_own_list(tmp_path):
    plans = [{"unitPrice": 70.0, "retailPrice": 70.0, "term": "1 Year"}, {"unitPrice": 50.0, "retailPrice": 50.0, "term": "3 Years"}]
    items = [
        item(98.32, savingsPlan=plans),
        item(113.0, productName="Virtual Machines NDsr H100 v5 Series Windows"),
        item(30.0, skuName="ND96isr H100 v5 Spot"),
        item(20.0, meterName="ND96isr H100 v5 Low Priority"),
        item(60.0 * 8760, type="Reservation", reservationTerm="1 Year"),
        item(45.0 * 3 * 8760, type="Reservation", reservationTerm="3 Years"),
        item(90.0, type="DevTestConsumption"),
        item(0.1, armSkuName="Standard_D2s_v5"),
    ]
    page = {"BillingCurrency": "USD", "Items": items, "NextPageLink": None, "Count": len(items)}
    (tmp_path / "retail-2026-09-01.json").write_text(json.dumps(page))
    found = ingest("auto", tmp_path / "retail-2026-09-01.json")
    offers = found.tables["offers"].set_index("term")
    right = {"on_demand": 98.32, "spot": 30.0, "reserved_1y": 60.0, "reserved_3y": 45.0, "savings_plan_1y": 70.0, "savings_plan_3y": 50.0}
    assert offers.usd_per_hour.to_dict() == pytest.approx(right)
    assert offers.discounts.to_dict()["savings_plan_1y"] == "usd_per_hour"
    assert set(offers.geography) == {"us"}
    assert set(offers.sku) == {"Standard_ND96isr_H100_v5"}


def test_a_row_of_a_day_stands_for_all_its_requests(tmp_path):
    header = (
        "id,user_id,date,api_key,model,prompt_tokens,completion_tokens,spend,api_requests,successful_requests,failed_requests,created_at\n"
    )
    rows = ["a,u,2026-09-01,k,m,1000,200,0,11,10,1,2026-09-01 03:00:00", "b,v,2026-09-01,k,m,500,100,0,5,5,0,2026-09-01 03:00:00"]
    last = "c,u,2026-09-02,k,m,700,100,0,7,7,0,2026-09-02 03:00:00"
    path = tmp_path / "daily.csv"
    path.write_text(header + "\n".join([*rows, last]) + "\n")
    (tmp_path / "book").mkdir()
    (tmp_path / "book" / "book.yaml").write_text("name: t\n")
    usage = ingest("auto", path, tmp_path / "book").tables["usage"]
    assert usage.quantity.tolist() == [15, 7]
    assert usage.get("covered_share") is None or usage.covered_share.isna().all()
    path.write_text(header + "\n".join([*rows, last.replace(",7,7,", ",9,9,")]) + "\n")
    again = ingest("auto", path, tmp_path / "book")
    assert any("--replace takes it as it is now" in note for note in again.notes)
    assert ingest("auto", path, tmp_path / "book", replace=True).tables["usage"].quantity.tolist() == [15, 9]


def point(begin: int, end: int, labels: dict[str, str], **values: object) -> dict[str, object]:
    times = {"startTimeUnixNano": str(START + begin * 60 * 10**9), "timeUnixNano": str(START + end * 60 * 10**9)}
    return {**times, "attributes": held(**labels), **values}


def metrics(*series: tuple[str, str, int, list[dict[str, object]]]) -> dict[str, object]:
    told = [{"name": name, kind: {"aggregationTemporality": how, "dataPoints": points}} for name, kind, how, points in series]
    sender = {"attributes": held(service__name="gateway")}
    return {"resourceMetrics": [{"resource": sender, "scopeMetrics": [{"scope": {}, "metrics": told}]}]}


def test_histograms_of_a_gateway_count_requests_and_tokens(tmp_path):
    served, failed = {"gen_ai__request__model": "m"}, {"gen_ai__request__model": "m", "error__type": "timeout"}
    duration = [
        point(0, 1, served, count="10", sum=5.0),
        point(1, 2, failed, count="2", sum=1.0),
        point(60, 61, served, count="7", sum=1.0),
    ]
    tokens = [point(0, 1, {"gen_ai__token__type": kind}, count="10", sum=amount) for kind, amount in (("input", 5000), ("output", 1000))]
    other = ("process.cpu.time", "sum", 2, [point(0, 1, {}, asDouble=3.0)])
    series = metrics(
        ("gen_ai.client.operation.duration", "histogram", 1, duration), ("gen_ai.client.token.usage", "histogram", 1, tokens), other
    )
    found = ingest("auto", lines(tmp_path / "metrics.jsonl", series))
    table = found.tables["requests"].set_index("time")[["requests", "input_tokens", "output_tokens"]]
    assert table.to_numpy().tolist() == [[10, 5000, 1000], [7, 0, 0]]
    assert any("17 requests were served by the model; 2 failed" in note for note in found.notes)


def test_counters_of_a_server_count_by_their_growth_and_start_anew_where_it_does(tmp_path):
    def counter(name: str, *values: tuple[int, float]) -> tuple[str, str, int, list[dict[str, object]]]:
        return name, "sum", 2, [point(-900, minute, {"model_name": "m"}, asDouble=value) for minute, value in values]

    requests = counter("vllm:request_success_total", (0, 100), (10, 110), (59, 150), (70, 170))
    read = counter("vllm:prompt_tokens_total", (0, 500), (10, 1500), (59, 40), (70, 60))
    wrote = counter("vllm:generation_tokens_total", (0, 0), (70, 900))
    found = ingest("auto", lines(tmp_path / "metrics.json", metrics(requests, read, wrote)))
    assert found.tables["requests"][["requests", "input_tokens", "output_tokens"]].sum().tolist() == [70, 1000 + 40 + 20, 900]
