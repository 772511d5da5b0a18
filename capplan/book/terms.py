"""The words a book may use for what it has: terms of contracts, kinds of limits, stages of work; each list once."""

from capplan.contract_kinds import KINDS

TERMS = list(KINDS)
DISCOUNTS = ["units", "usd_per_hour", "none"]
LIMIT_KINDS = [
    "on_demand_accelerators",
    "spot_accelerators",
    "spot_share",
    "quota_accelerators",
    "new_accelerators",
    "power_kw",
    "budget_usd",
    "provider_share",
]
#: What a limit on accelerators counts, and the kind of limit that counts just that unless it says otherwise.
COUNTS = {
    "purchases": "quota_accelerators",
    "on_demand": "on_demand_accelerators",
    "spot": "spot_accelerators",
    "running": "quota_accelerators",
    "all": "quota_accelerators",
}
#: Kinds of provider whose prices have moved differently; others are taken to stay where they are.
PROVIDER_KINDS = {
    "hyperscaler": ("aws", "azure", "gcp", "oci"),
    "specialist": ("coreweave", "crusoe", "hyperstack", "lambda", "nebius", "runpod", "together", "voltage_park"),
}
MEASURES = ["p_and_l", "compute", "cash", "capex"]
REGION = "Where: a geography (us, eu, apac, ...), a provider's own region, or any."
CROSSINGS = ["same_geography", "other_geography", "other_provider"]
#: Units in which smaller is better.
TIME_UNITS = ["seconds", "minutes", "hours", "days"]
RATE_UNITS = ["tokens/s", "samples/s", "steps/s", "units/h"]
STAGES = ["data_preparation", "pretraining", "alignment", "deployment", "serving", "tuning", "evaluation"]
HOSTS = ["self", "api", "either"]
