"""The divided fleet as Slurm partitions, with the commands that set limits and shares."""

import re
from collections.abc import Iterable

import pandas as pd

from capplan.errors import CapplanError
from capplan.outputs.export.foreign_names import labels

#: What a line of the written file may be: a comment, a setting, or a partition with settings; nothing else can come out of a book.
_WORD = r"[A-Za-z0-9_.:/\[\],=-]+"
_LINE = re.compile(rf"(#[ -~]*|[A-Za-z]+=[A-Za-z0-9_/,-]+|PartitionName=[a-z0-9-]+( [A-Za-z]+={_WORD})+|)")
#: Partition parameters of slurm.conf that are written.
PARAMETERS = frozenset({"PartitionName", "Nodes", "State", "Default", "PriorityTier", "PreemptMode", "QOS"})


def host_list(names: Iterable[str]) -> str:
    """Write node names as Slurm's host list, neighbours as ranges.

    Examples:
        >>> host_list(["us-rack-01-0", "us-rack-01-1", "us-rack-01-2", "login"])
        'us-rack-01-[0-2],login'
    """
    groups: dict[str, list[int]] = {}
    found: list[str] = []
    for name in names:
        stem, digits = re.fullmatch(r"(.*?)(0|[1-9]\d*)?", name).groups()  # type: ignore[union-attr]
        if digits is None:
            groups.setdefault(name, [])
        else:
            groups.setdefault(stem, []).append(int(digits))
    for stem, numbers in groups.items():
        runs: list[list[int]] = []
        for number in sorted(numbers):
            if runs and number == runs[-1][1] + 1:
                runs[-1][1] = number
            else:
                runs.append([number, number])
        parts = [f"{first}-{last}" if last > first else str(first) for first, last in runs]
        found.append(
            stem if not parts else f"{stem}{parts[0]}" if len(parts) == 1 and "-" not in parts[0] else f"{stem}[{','.join(parts)}]"
        )
    return ",".join(found)


def slurm_conf(quotas: pd.DataFrame, fleet: pd.DataFrame, arrangement: str) -> str:
    """Write partitions for slurm.conf, and the commands that set limits and shares as comments.

    Separate clusters are two partitions on their own nodes. In a shared pool both partitions have all nodes and inference displaces
    training. Lending
    adds a third partition, `lent`: inference's nodes at the lowest tier, whose jobs go back to the queue when inference asks; jobs name
    both
    (`--partition=training,lent`).

    Args:
        quotas: [queue, role, team, accelerator, nominal_accelerators, borrowing_limit, lending_limit, cohort].
        fleet: [node, accelerator, accelerator_count, own].
        arrangement: "separate", "shared" or "lending".

    Source: Slurm, slurm.conf(5) and Preemption: PreemptType=preempt/partition_prio with PriorityTier and PreemptMode by partition.
    """
    names = labels(fleet["node"], "node")
    own = {part: host_list(names[node] for node in rows["node"]) for part, rows in fleet.groupby("own", sort=False)}
    everything = host_list(names[node] for node in fleet["node"])
    if "inference" not in own or "training" not in own:
        raise CapplanError("the fleet is not divided: one part has no nodes; run `capplan run split BOOK` again")
    high, low = "PriorityTier=100 PreemptMode=OFF", "PriorityTier=1 PreemptMode=REQUEUE"
    lines = ["# Slurm partitions of the recommended split; the nodes are those of the nodes table and must be defined as NodeName lines."]
    if arrangement == "separate":
        lines += [
            f"PartitionName=inference Nodes={own['inference']} State=UP",
            f"PartitionName=training Nodes={own['training']} Default=YES State=UP",
        ]
    else:
        lines += ["PreemptType=preempt/partition_prio", "PreemptMode=REQUEUE"]
        if arrangement == "shared":
            lines += [
                f"PartitionName=inference Nodes={everything} {high} State=UP",
                f"PartitionName=training Nodes={everything} Default=YES {low} State=UP",
            ]
        else:
            lines += [
                f"PartitionName=inference Nodes={own['inference']} {high} State=UP",
                f"PartitionName=training Nodes={own['training']} Default=YES {high} State=UP",
                f"PartitionName=lent Nodes={own['inference']} {low} QOS=lent State=UP",
                "# jobs name both: sbatch --partition=training,lent --requeue",
            ]
    lines += ["#", "# limits and shares, once slurmdbd keeps accounts (AccountingStorageTRES=gres/gpu, AccountingStorageEnforce=limits):"]
    if arrangement == "lending":
        lends = int(pd.to_numeric(quotas.loc[quotas["role"] == "inference", "lending_limit"]).sum())
        borrows = int(pd.to_numeric(quotas.loc[quotas["role"] == "cohort", "borrowing_limit"]).sum())
        lines += ["# sacctmgr -i add qos lent", f"# sacctmgr -i modify qos lent set GrpTRES=gres/gpu={min(lends, borrows)}"]
    training = quotas[quotas["role"] == "training"]
    teams = labels(training["team"], "team")
    for team, share in training.groupby("team", sort=False)["nominal_accelerators"].sum().items():
        lines += [f"# sacctmgr -i add account {teams[team]}", f"# sacctmgr -i modify account {teams[team]} set Fairshare={int(share)}"]
    wrong = slurm_faults("\n".join(lines))
    if wrong:
        raise CapplanError("the Slurm partitions are not as slurm.conf wants them: " + "; ".join(wrong))
    return "\n".join(lines) + "\n"


def slurm_faults(text: str) -> list[str]:
    """Return the lines of a text that are neither comments, settings nor partitions with known parameters."""
    faults = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not _LINE.fullmatch(line):
            faults.append(f"line {number} is no comment, setting or partition: {line[:60]!r}")
        elif line.startswith("PartitionName="):
            unknown = {part.split("=", 1)[0] for part in line.split(" ")} - PARAMETERS
            faults += [f"line {number}: {name} is not written for partitions" for name in sorted(unknown)]
    return faults
