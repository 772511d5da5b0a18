"""Quotas for schedulers: they add up, hold to the published fields, and no text of a book is live in them."""

from __future__ import annotations

import json
import re

import pandas as pd
import pytest
import yaml
from typer.testing import CliRunner

from capplan.cli import app
from capplan.errors import CapplanError
from capplan.outputs.export.files import write_table
from capplan.outputs.export.foreign_names import LABEL, label, labels
from capplan.outputs.export.kueue import kueue_faults, kueue_objects, kueue_yaml
from capplan.outputs.export.quotas import export_quotas
from capplan.outputs.export.slurm import host_list, slurm_conf, slurm_faults

COLUMNS = ["queue", "role", "team", "accelerator", "nominal_accelerators", "borrowing_limit", "lending_limit", "cohort"]
LENDING = pd.DataFrame(
    [
        ("inference", "inference", "", "H100", 336, 0, 336, "fleet"),
        ("training-data", "training", "data", "H100", 45, None, None, "training"),
        ("training-research", "training", "research", "H100", 131, None, None, "training"),
        ("training", "cohort", "", "H100", 0, 176, 0, "fleet"),
    ],
    columns=COLUMNS,
)
FLEET = pd.DataFrame(
    {
        "node": [f"n-{index}" for index in range(64)],
        "accelerator": "H100",
        "accelerator_count": 8,
        "own": ["training"] * 22 + ["inference"] * 42,
    }
)
NASTY = [
    "x\nkind: Secret",
    "a: {b: c}",
    "!!python/object/apply:os.system ['id']",
    "--- \napiVersion: v1",
    "$(reboot)",
    "=HYPERLINK(1)",
    "Ünïcode",
    "",
    "a" * 300,
    "../../etc",
    "#",
    "&a *a",
]


def of(objects, kind):
    return {found["metadata"]["name"]: found["spec"] for found in objects if found["kind"] == kind}


def test_lending_as_kueue_objects():
    text = kueue_yaml(LENDING)
    objects = list(yaml.safe_load_all(text))
    queues, cohorts = of(objects, "ClusterQueue"), of(objects, "Cohort")
    assert {found["apiVersion"] for found in objects} == {"kueue.x-k8s.io/v1beta2"}
    quota = queues["inference"]["resourceGroups"][0]["flavors"][0]["resources"][0]
    assert quota == {"name": "nvidia.com/gpu", "nominalQuota": 336, "borrowingLimit": 0, "lendingLimit": 336}
    assert queues["inference"]["preemption"]["reclaimWithinCohort"] == "Any"
    assert sum(queue["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"] for queue in queues.values()) == 512
    assert queues["training-data"]["cohortName"] == "training"
    assert cohorts["training"]["parentName"] == "fleet"
    assert cohorts["training"]["resourceGroups"][0]["flavors"][0]["resources"][0]["borrowingLimit"] == 176
    assert list(of(objects, "ResourceFlavor")) == ["h100"]
    assert kueue_faults(text) == []


def test_the_older_api_names_its_cohort_otherwise():
    text = kueue_yaml(LENDING, "v1beta1")
    queues = of(yaml.safe_load_all(text), "ClusterQueue")
    assert queues["training-data"]["cohort"] == "training"
    assert kueue_faults(text) == []
    assert text.replace("v1beta1", "v1beta2").replace("  cohort: ", "  cohortName: ") == kueue_yaml(LENDING)
    assert "no field cohortName" in "; ".join(kueue_faults(text.replace("  cohort: ", "  cohortName: ")))
    assert "only" in "; ".join(kueue_faults(text.replace("v1beta1", "v1beta2", 1)))
    assert kueue_faults("") == []


def test_separate_clusters_and_a_shared_pool():
    apart = LENDING[LENDING["role"] != "cohort"].assign(borrowing_limit=None, lending_limit=None)
    apart.loc[apart["role"] == "inference", "cohort"] = None
    queues = of(kueue_objects(apart), "ClusterQueue")
    assert "cohortName" not in queues["inference"]
    assert "preemption" not in queues["inference"]
    shared = LENDING[LENDING["role"] != "cohort"].assign(borrowing_limit=None, lending_limit=None, cohort="fleet")
    assert of(kueue_objects(shared), "ClusterQueue")["inference"]["preemption"]["borrowWithinCohort"] == {"policy": "LowerPriority"}
    assert kueue_faults(kueue_yaml(shared)) == kueue_faults(kueue_yaml(apart)) == []


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("nominalQuota: 336", "nominalquota: 336", "no field nominalquota"),
        ("nominalQuota: 336", "nominalQuota: -1", "not allowed"),
        ("nominalQuota: 336", "nominalQuota: many", "not allowed"),
        ("nominalQuota: 336\n", "nominalQuota: 300\n", "lends more than it has"),
        ("cohortName: fleet\n", "cohort: fleet\n", "no field cohort"),
        ("cohortName: fleet\n", "cohortName: nowhere\n", "no cohort nowhere"),
        ("  cohortName: fleet\n", "", "limits need a cohort"),
        ("reclaimWithinCohort: Any", "reclaimWithinCohort: Always", "not allowed"),
        ("queueingStrategy: BestEffortFIFO", "queueingStrategy: FIFO", "not allowed"),
        ("name: inference", "name: In_ference", "RFC 1123"),
        ("kind: ResourceFlavor", "kind: Secret", "only"),
        ("v1beta2\nkind: ResourceFlavor", "v1\nkind: ResourceFlavor", "only"),
        ("    - nvidia.com/gpu\n", "    - amd.com/gpu\n", "covered resources"),
        ("  name: h100\n", "  name: a100\n", "no flavor h100"),
        ("        nominalQuota: 336\n", "", "nominalQuota is required"),
    ],
)
def test_what_kueue_would_refuse_is_found(old, new, message):
    text = kueue_yaml(LENDING)
    assert old in text
    assert message in "; ".join(kueue_faults(text.replace(old, new, 1)))


@pytest.mark.parametrize("text", NASTY)
def test_no_text_of_a_book_is_live(text):
    quotas = LENDING.copy()
    quotas.loc[1, ["queue", "team"]] = [f"training-{text}", text]
    quotas.loc[:, "accelerator"] = text or "H100"
    objects = list(yaml.safe_load_all(kueue_yaml(quotas)))
    assert sorted(found["kind"] for found in objects) == sorted(
        ["ResourceFlavor", "Cohort", "Cohort", "ClusterQueue", "ClusterQueue", "ClusterQueue"]
    )
    assert all(LABEL.fullmatch(found["metadata"]["name"]) for found in objects)
    conf = slurm_conf(quotas, FLEET.assign(node=[f"{text}{index}" for index in range(64)]), "lending")
    assert slurm_faults(conf) == []
    assert len(re.findall("^PartitionName=", conf, re.MULTILINE)) == 3
    assert conf.isascii()


def test_names_are_labels_and_stay_apart():
    assert label("a" * 300) == "a" * 63
    found = labels(["Team A", "team-a", "team a!", "", "***"])
    assert len(set(found.values())) == 5
    assert all(LABEL.fullmatch(name) for name in found.values())


def test_slurm_partitions_by_arrangement():
    conf = slurm_conf(LENDING, FLEET, "lending")
    assert "PartitionName=inference Nodes=n-[22-63] PriorityTier=100 PreemptMode=OFF State=UP" in conf
    assert "PartitionName=lent Nodes=n-[22-63] PriorityTier=1 PreemptMode=REQUEUE QOS=lent State=UP" in conf
    assert "GrpTRES=gres/gpu=176" in conf
    shared = slurm_conf(LENDING, FLEET, "shared")
    assert shared.count("Nodes=n-[0-63]") == 2
    apart = slurm_conf(LENDING, FLEET, "separate")
    assert "Preempt" not in apart
    assert "PartitionName=training Nodes=n-[0-21]" in apart
    assert slurm_faults("PartitionName=x Nodes=n Reboot=1")
    assert slurm_faults("Include /etc/passwd")
    assert host_list(["a-1", "a-2", "a-4", "b", "c-7"]) == "a-[1-2,4],b,c-7"


def write_answer(folder):
    folder.mkdir(parents=True)
    write_table(LENDING.astype({"borrowing_limit": "Int64", "lending_limit": "Int64"}), folder / "quotas.csv")
    write_table(FLEET, folder / "fleet.csv")


def test_the_command_reads_the_answer_beside_a_report(tmp_path):
    write_answer(tmp_path / "2027Q1-notebooks" / "split")
    (tmp_path / "2027Q1").mkdir()
    texts = {export_quotas("kueue", tmp_path / place).text for place in ("2027Q1", "2027Q1-notebooks", "2027Q1-notebooks/split")}
    assert texts == {kueue_yaml(LENDING)}
    run = CliRunner()
    shown = run.invoke(app, ["export", "kueue", str(tmp_path / "2027Q1")])
    assert shown.exit_code == 0
    assert kueue_faults(shown.stdout) == []
    kept = run.invoke(app, ["export", "slurm", str(tmp_path / "2027Q1"), "--to", str(tmp_path / "slurm.conf"), "--json"])
    assert json.loads(kept.stdout)["tables"]["quotas"][0]["nominal_accelerators"] == 336
    assert (tmp_path / "slurm.conf").read_text(encoding="utf-8") == slurm_conf(LENDING, FLEET, "lending")


def test_a_missing_or_broken_answer_is_named(tmp_path):
    with pytest.raises(CapplanError, match="capplan run split BOOK"):
        export_quotas("kueue", tmp_path)
    write_answer(tmp_path / "split")
    assert export_quotas("kueue-v1beta1", tmp_path).text == kueue_yaml(LENDING, "v1beta1")
    with pytest.raises(CapplanError, match="did you mean kueue"):
        export_quotas("keue", tmp_path)
    (tmp_path / "split" / "quotas.csv").write_text("queue,role\na,b\n", encoding="utf-8")
    with pytest.raises(CapplanError, match="no column team"):
        export_quotas("kueue", tmp_path)
    with pytest.raises(CapplanError, match="whole numbers"):
        kueue_yaml(LENDING.assign(nominal_accelerators=1.5))
