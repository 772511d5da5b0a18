"""Quotas as Kueue objects, checked against the published fields of its API before they are written."""

import re
from typing import Any

import pandas as pd
import yaml

from capplan.errors import CapplanError
from capplan.outputs.export.foreign_names import LABEL, label, labels

GROUP = "kueue.x-k8s.io"
#: Versions of the API, newest first, and the field by which a ClusterQueue names its cohort in each.
VERSIONS = {"v1beta2": "cohortName", "v1beta1": "cohort"}
HEADER = """\
# Kueue quotas of the recommended split, counted in accelerators.
# - Quotas cover accelerators only: let Kueue leave out what is not listed (resources.excludeResourcePrefixes in its configuration: cpu,
# memory, ...).
# - Flavors expect nodes labelled capplan/accelerator=<name>; change the label to the one your nodes have.
# - Inference needs a WorkloadPriorityClass above that of training: it takes back what was lent.
"""
_NAME = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_QUANTITY = r"(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?"


def resource_of(accelerator: str) -> str:
    """Return the resource that a device plugin names an accelerator by.

    Examples:
        >>> resource_of("H100"), resource_of("MI300X"), resource_of("TPU v5e")
        ('nvidia.com/gpu', 'amd.com/gpu', 'google.com/tpu')
    """
    name = accelerator.upper()
    return "google.com/tpu" if name.startswith("TPU") else "amd.com/gpu" if re.match(r"MI\d", name) else "nvidia.com/gpu"


def kueue_objects(quotas: pd.DataFrame, version: str = "v1beta2") -> list[dict[str, Any]]:
    """Turn quotas into ResourceFlavors, Cohorts and ClusterQueues.

    Args:
        quotas: [queue, role, team, accelerator, nominal_accelerators, borrowing_limit, lending_limit, cohort]; empty limits are none. A row
            of role cohort is a cohort with limits of its own inside its parent.
        version: Version of the API: v1beta2, or v1beta1 for a Kueue that does not know it yet.

    Raises:
        CapplanError: A quota that is negative or not whole.
    """
    api, flavors = f"{GROUP}/{version}", labels(quotas["accelerator"])
    groups, quotas = quotas[quotas["role"] == "cohort"], quotas[quotas["role"] != "cohort"]
    queues = labels(quotas["queue"], "queue")
    cohorts = labels([*groups["cohort"].dropna(), *groups["queue"], *quotas["cohort"].dropna()], "cohort")
    objects: list[dict[str, Any]] = [
        {"apiVersion": api, "kind": "ResourceFlavor", "metadata": {"name": flavor}, "spec": {"nodeLabels": {"capplan/accelerator": flavor}}}
        for flavor in flavors.values()
    ]
    for cohort, name in cohorts.items():
        rows = groups[groups["queue"] == cohort]
        spec: dict[str, Any] = (
            {"parentName": cohorts[rows["cohort"].iloc[0]], "resourceGroups": _groups(rows, flavors, True)} if len(rows) else {}
        )
        objects.append({"apiVersion": api, "kind": "Cohort", "metadata": {"name": name}, "spec": spec})
    for queue, rows in quotas.groupby("queue", sort=False):
        cohort = rows["cohort"].iloc[0]
        joined = isinstance(cohort, str)
        serving = rows["role"].iloc[0] == "inference"
        spec = {VERSIONS[version]: cohorts[cohort]} if joined else {}
        spec["namespaceSelector"] = {}
        spec["queueingStrategy"] = "BestEffortFIFO"
        if joined:
            spec["preemption"] = {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"}
            if serving and rows["borrowing_limit"].isna().any():
                spec["preemption"]["borrowWithinCohort"] = {"policy": "LowerPriority"}
        spec["resourceGroups"] = _groups(rows, flavors, joined)
        objects.append({"apiVersion": api, "kind": "ClusterQueue", "metadata": {"name": queues[queue]}, "spec": spec})
    return objects


def _groups(rows: pd.DataFrame, flavors: dict[object, str], joined: bool) -> list[dict[str, Any]]:
    """Return the quotas of a queue or a cohort, one group a resource."""
    return [
        {
            "coveredResources": [resource],
            "flavors": [{"name": flavors[row.accelerator], "resources": [_quota(row, resource, joined)]} for row in part.itertuples()],
        }
        for resource, part in rows.groupby(rows["accelerator"].map(resource_of), sort=False)
    ]


def _quota(row: Any, resource: str, joined: bool) -> dict[str, Any]:
    """Return one quota as Kueue writes it."""
    found: dict[str, Any] = {"name": resource, "nominalQuota": _whole(row.nominal_accelerators, row.queue)}
    for field, value in (("borrowingLimit", row.borrowing_limit), ("lendingLimit", row.lending_limit)):
        if joined and not pd.isna(value):
            found[field] = _whole(value, row.queue)
    return found


def _whole(value: object, queue: object) -> int:
    """Return a number of accelerators."""
    number = pd.to_numeric(value, errors="coerce")
    if pd.isna(number) or number < 0 or number != int(number):
        raise CapplanError(f"quotas: {label(queue)} has {value!r} accelerators; quotas are whole numbers of 0 or more")
    return int(number)


def kueue_yaml(quotas: pd.DataFrame, version: str = "v1beta2") -> str:
    """Write quotas as YAML that `kubectl apply` takes, after checking what a reader would read back."""
    text = HEADER + yaml.safe_dump_all(kueue_objects(quotas, version), sort_keys=False, explicit_start=True)
    faults = kueue_faults(text)
    if faults:
        raise CapplanError("the Kueue objects are not as its API wants them: " + "; ".join(faults))
    return text


def _name(text: Any) -> bool:
    """Tell whether a text is a name as the definitions want it."""
    return isinstance(text, str) and len(text) <= 253 and re.fullmatch(_NAME, text) is not None


def _quantity(value: Any) -> bool:
    """Tell whether a value is a quantity that is not negative."""
    good = isinstance(value, int | str) and not isinstance(value, bool) and re.fullmatch(_QUANTITY, str(value)) is not None
    return good and not str(value).startswith("-")


def _one_of(*known: str) -> Any:
    """Return a judge of a choice."""
    return lambda value: value in known


#: Published fields of spec: a dict nests; a list holds the rule of its entries and the fields that each must have; a function judges a
#: value.
_RESOURCE = {
    "name": lambda text: isinstance(text, str) and bool(text),
    "nominalQuota": _quantity,
    "borrowingLimit": _quantity,
    "lendingLimit": _quantity,
}
_FLAVOR = {"name": _name, "resources": [_RESOURCE, "name", "nominalQuota"]}
_GROUP = {"coveredResources": [lambda text: isinstance(text, str) and bool(text)], "flavors": [_FLAVOR, "name", "resources"]}
_GROUPS = [_GROUP, "coveredResources", "flavors"]
SPECS: dict[str, dict[str, Any]] = {
    "ResourceFlavor": {
        "nodeLabels": lambda value: isinstance(value, dict) and all(isinstance(text, str) for text in value.values()),
        "topologyName": _name,
    },
    "Cohort": {"parentName": _name, "resourceGroups": _GROUPS, "fairSharing": {"weight": _quantity}},
    "ClusterQueue": {
        "namespaceSelector": {
            "matchLabels": lambda value: isinstance(value, dict),
            "matchExpressions": lambda value: isinstance(value, list),
        },
        "queueingStrategy": _one_of("StrictFIFO", "BestEffortFIFO"),
        "preemption": {
            "reclaimWithinCohort": _one_of("Never", "LowerPriority", "Any"),
            "withinClusterQueue": _one_of("Never", "LowerPriority", "LowerOrNewerEqualPriority"),
            "borrowWithinCohort": {
                "policy": _one_of("Never", "LowerPriority"),
                "maxPriorityThreshold": lambda value: isinstance(value, int),
            },
        },
        "flavorFungibility": {
            "whenCanBorrow": _one_of("MayStopSearch", "TryNextFlavor"),
            "whenCanPreempt": _one_of("MayStopSearch", "TryNextFlavor"),
        },
        "fairSharing": {"weight": _quantity},
        "stopPolicy": _one_of("None", "Hold", "HoldAndDrain"),
        "resourceGroups": _GROUPS,
    },
}


def kueue_faults(text: str) -> list[str]:
    """Return what in a YAML text is not as Kueue's published resource definitions want it.

    Checked are the fields, their types, patterns and choices, what is required, that a flavor lists the covered resources, that limits
    stand in a cohort
    only, that lending does not exceed the quota, and that every flavor and cohort is defined.

    Source: Kueue, config/components/crd/bases: clusterqueues, cohorts and resourceflavors of kueue.x-k8s.io, v1beta2 and v1beta1.
    """
    faults: list[str] = []
    try:
        objects = [found for found in yaml.safe_load_all(text) if found is not None]
    except yaml.YAMLError as error:
        return [f"no YAML: {error}"]
    defined: dict[str, set[str]] = {kind: set() for kind in SPECS}
    # all are of one version, that of the first
    version = str(objects[0].get("apiVersion")).removeprefix(f"{GROUP}/") if objects and isinstance(objects[0], dict) else ""
    version = version if version in VERSIONS else next(iter(VERSIONS))
    specs = {**SPECS, "ClusterQueue": {VERSIONS[version]: _name, **SPECS["ClusterQueue"]}}
    for found in objects:
        kind = found.get("kind") if isinstance(found, dict) else None
        if kind not in SPECS or set(found) - {"apiVersion", "kind", "metadata", "spec"} or found.get("apiVersion") != f"{GROUP}/{version}":
            faults.append(f"{kind}: only {', '.join(SPECS)} of {GROUP}/{version} with metadata and spec are written")
            continue
        name = found.get("metadata", {}).get("name")
        if set(found.get("metadata", {})) != {"name"} or not (isinstance(name, str) and LABEL.fullmatch(name)) or name in defined[kind]:
            faults.append(f"{kind} {name!r}: the name is no RFC 1123 label, or comes twice")
            continue
        defined[kind].add(name)
        _check(found.get("spec") or {}, specs[kind], f"{kind} {name}", faults)
    if faults:
        return faults
    for found in objects:
        if found["kind"] != "ResourceFlavor":
            faults += _relations(found, defined, "parentName" if found["kind"] == "Cohort" else VERSIONS[version])
    return faults


def _check(value: Any, rule: Any, where: str, faults: list[str]) -> None:
    """Hold a value against its rule."""
    if isinstance(rule, dict):
        if not isinstance(value, dict):
            faults.append(f"{where}: fields were expected")
            return
        for field, inner in value.items():
            if field not in rule:
                faults.append(f"{where}: there is no field {field}")
            else:
                _check(inner, rule[field], f"{where}.{field}", faults)
    elif isinstance(rule, list):
        inner, *required = rule
        if not isinstance(value, list) or not value:
            faults.append(f"{where}: a list with at least one entry was expected")
            return
        for entry in value:
            faults += [f"{where}: {field} is required" for field in required if not isinstance(entry, dict) or field not in entry]
            _check(entry, inner, where, faults)
    elif not rule(value):
        faults.append(f"{where}: {value!r} is not allowed")


def _relations(queue: dict[str, Any], defined: dict[str, set[str]], above: str) -> list[str]:
    """Return what does not fit together in a queue."""
    where, spec, faults = f"{queue['kind']} {queue['metadata']['name']}", queue.get("spec") or {}, []
    cohort = spec.get(above)
    if cohort is not None and cohort not in defined["Cohort"]:
        faults.append(f"{where}: there is no cohort {cohort}")
    preemption = spec.get("preemption", {})
    if (
        preemption.get("reclaimWithinCohort", "Never") == "Never"
        and preemption.get("borrowWithinCohort", {}).get("policy", "Never") != "Never"
    ):
        faults.append(f"{where}: borrowWithinCohort needs reclaimWithinCohort")
    seen: set[str] = set()
    for group in spec.get("resourceGroups", []):
        if seen & set(group["coveredResources"]):
            faults.append(f"{where}: a resource stands in two groups")
        seen |= set(group["coveredResources"])
        for flavor in group["flavors"]:
            if flavor["name"] not in defined["ResourceFlavor"]:
                faults.append(f"{where}: there is no flavor {flavor['name']}")
            if [resource["name"] for resource in flavor["resources"]] != group["coveredResources"]:
                faults.append(f"{where}: flavor {flavor['name']} does not list the covered resources in their order")
            for resource in flavor["resources"]:
                if cohort is None and ("borrowingLimit" in resource or "lendingLimit" in resource):
                    faults.append(f"{where}: limits need a cohort")
                lends, has = resource.get("lendingLimit"), resource["nominalQuota"]
                if queue["kind"] == "ClusterQueue" and isinstance(lends, int) and isinstance(has, int) and lends > has:
                    faults.append(f"{where}: it lends more than it has")
    return faults
