"""Levers before hardware: what batching, caches, routing and their like save, each alone and all together."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from capplan.book.assumptions.serving import ServingAssumptions
from capplan.errors import CapplanError
from capplan.questions.serving.replica_memory import BYTES_PER_WEIGHT
from capplan.questions.serving.request_time import RequestWork, phase_seconds, work_share
from capplan.questions.serving.service_traffic import checked_traffic
from capplan.questions.serving.staffing import cheapest_point, feasible_points
from capplan.text import money

#: Number format that smaller weights are held against.
WIDE = "bf16"


@dataclass(frozen=True)
class Levers:
    """What can be saved before hardware is bought."""

    #: lever, setting (in words), usd and accelerator_hours (with this lever alone), saving_usd, saving_share (alone), step_usd (what the
    #: bill changes by when it joins those above it), used (a lever that would raise the bill is left off), in_use_saving_share (what its
    #: use today already saves: batching beside the fewest requests at once, smaller weights beside bf16, a prompt cache beside none; 0 =
    #: not in use).
    table: pd.DataFrame
    #: base_usd, together_usd: Bill without any lever, and with all used ones.
    base_usd: float
    together_usd: float
    #: By how much the savings alone overstate the saving together: what one lever has saved, another cannot save again.
    interaction_usd: float
    headline: str  #: One sentence with the number that decides.
    notes: tuple[str, ...]  #: Levers that were left off, and why.


@dataclass(frozen=True)
class _State:
    """Where the requests go and how each is worked on."""

    own_share: float
    small_share: float
    looked_up: bool
    work: RequestWork
    limit: float


@dataclass(frozen=True)
class Bench:
    """What a fleet's bill is computed from."""

    points: pd.DataFrame  #: Operating points of the service on one accelerator.
    limit: float  #: Requests a replica takes at once today; infinite where nothing limits it but the target.
    work: RequestWork  #: The request as it is today.
    #: model, accelerator: Rows of models and accelerators.
    model: pd.Series
    accelerator: pd.Series
    small_cost_share: float  #: Accelerator time of a request on the smaller model over that of one as it is today.
    #: first_token_seconds, token_seconds: Latency targets.
    first_token_seconds: float
    token_seconds: float
    usd_per_accelerator_hour: float  #: Price.


def lever_savings(traffic: pd.DataFrame, bench: Bench, a: ServingAssumptions) -> Levers:
    r"""Say what each lever saves alone, and what all of them save together.

    The bill is that of the fleet sized hour by hour; each lever changes how many requests reach the model or how long one holds its slot,
    and
    the fleet is sized anew. Savings do not add up, because a request that a cache has answered cannot be routed any more:

    .. math:: S_\text{all} = B - B(1, \dots, 1) \neq \sum_i \left(B - B(0, \dots, 1_i, \dots, 0)\right)

    Args:
        traffic: hour, requests.
        bench: Points, request, model, machine, targets and price.

    Raises:
        CapplanError: If no operating point meets the targets.
    """
    requests = checked_traffic(traffic)["requests"].to_numpy(dtype=float)
    start = _State(1.0, 0.0, False, bench.work, bench.limit)
    _, base_usd, batch = _bill(start, requests, bench, a)
    rows, notes, state, bill = [], [], start, base_usd
    in_use = _in_use(start, requests, bench, a)
    for name, setting, move in _levers(bench, a, batch, in_use):
        hours, usd, _ = _bill(move(start), requests, bench, a)
        after = _bill(move(state), requests, bench, a)[1]
        used = after < bill
        rows.append(
            {
                "lever": name,
                "setting": setting,
                "accelerator_hours": hours,
                "usd": usd,
                "saving_usd": base_usd - usd,
                "saving_share": 1 - usd / base_usd if base_usd else 0.0,
                "step_usd": after - bill if used else 0.0,
                "used": used,
                "in_use_saving_share": in_use.get(name, 0.0),
            }
        )
        if used:
            state, bill = move(state), after
        elif after > bill:
            notes.append(f"{name} is left off: with the levers above it, it would cost {money(after - bill)} more than it saves.")
    table = pd.DataFrame(rows)
    together = base_usd - bill
    alone = float(table.loc[table["used"], "saving_usd"].sum())
    return Levers(table, base_usd, bill, alone - together, _headline(table, base_usd, together), tuple(notes))


def _in_use(start: _State, requests: np.ndarray, bench: Bench, a: ServingAssumptions) -> dict[str, float]:
    """Say what the levers that are in use today already save, as a share of the bill without each."""
    work = start.work
    fewest = replace(start, limit=float(_able(np.inf, bench)["concurrency"].min()))
    without = {"Batching": fewest}
    if BYTES_PER_WEIGHT[work.precision] < BYTES_PER_WEIGHT[WIDE]:
        without["Smaller weights"] = replace(start, work=work.changed(precision=WIDE))
    if work.cached_share > 0:
        without["Prompt cache"] = replace(start, work=work.changed(cached_share=0.0))
    base = _bill(start, requests, bench, a)[1]
    bills = {name: _bill(state, requests, bench, a)[1] for name, state in without.items()}
    return {name: 1 - base / bill for name, bill in bills.items() if bill > base}


def _levers(bench: Bench, a: ServingAssumptions, batch: int, in_use: dict[str, float]) -> list[tuple[str, str, Callable[[_State], _State]]]:
    """List the levers in the order in which a request meets them; `batch` requests are worked on at once today."""
    work = bench.work
    exact, similar, routed, passed = a.exact_cache_share, a.semantic_cache_share, a.route_share, a.cascade_escalation_share
    precision = a.quantised_precision
    smaller = precision != "none" and BYTES_PER_WEIGHT[precision] < BYTES_PER_WEIGHT[work.precision]

    def less(share: float, state: _State) -> _State:
        return replace(state, own_share=state.own_share * (1 - share), small_share=state.small_share * (1 - share))

    def route(state: _State) -> _State:
        return replace(state, own_share=state.own_share * (1 - routed), small_share=state.small_share + state.own_share * routed)

    def cascade(state: _State) -> _State:
        return replace(state, own_share=state.own_share * passed, small_share=state.small_share + state.own_share)

    def worked(state: _State, **values: object) -> _State:
        return replace(state, work=state.work.changed(**values))

    def already(name: str, other: str) -> str:
        return f": {in_use[name]:.0%} less than {other}" if name in in_use else ""

    cut = work.output_tokens * (1 - a.output_cut_share)
    fewest = int(_able(np.inf, bench)["concurrency"].min())
    batching = (
        f"from {bench.limit:,.0f} at once to as many as the targets allow"
        if np.isfinite(bench.limit)
        else f"{batch:,} at once already, the cheapest within the targets" + already("Batching", f"{fewest} at a time")
    )
    weights = precision if smaller else f"{work.precision} already{already('Smaller weights', WIDE)}"
    prompts = f"{a.prompt_cache_share:.0%} of input tokens" + (f", {work.cached_share:.0%} already" if work.cached_share else "")
    return [
        ("Exact cache", f"{exact:.0%} of requests", lambda state: less(exact, state)),
        (
            "Similar answers",
            f"{similar:.0%} of the rest",
            lambda state: replace(less(similar, state), looked_up=similar > 0 or state.looked_up),
        ),
        ("Routing", f"{routed:.0%} to a smaller model", route),
        ("Cascade", f"{passed:.0%} passed on" if passed < 1 else "none", cascade if passed < 1 else lambda state: state),
        ("Shorter answers", f"{a.output_cut_share:.0%} fewer output tokens", lambda state: worked(state, output_tokens=cut)),
        ("Prompt cache", prompts, lambda state: worked(state, cached_share=max(state.work.cached_share, a.prompt_cache_share))),
        ("Batching", batching, lambda state: replace(state, limit=np.inf)),
        ("Smaller weights", weights, (lambda state: worked(state, precision=precision)) if smaller else lambda state: state),
        (
            "Draft model",
            f"{a.draft_tokens} tokens, {a.draft_acceptance_share:.0%} accepted",
            lambda state: worked(
                state, draft_tokens=a.draft_tokens, acceptance_share=a.draft_acceptance_share, draft_cost_share=a.draft_cost_share
            ),
        ),
    ]


def _able(limit: float, bench: Bench) -> pd.DataFrame:
    """Return the points that meet the targets with no more requests at once than a limit."""
    points = bench.points.drop(columns="usd_per_accelerator_hour", errors="ignore")
    points = points[points["concurrency"] <= limit]
    if points.empty:
        raise CapplanError(
            f"no operating point has {limit:g} requests at once or fewer; the smallest listed has {bench.points['concurrency'].min():g}."
            " Raise concurrency_limit in services.csv"
        )
    return feasible_points(points, bench.work.output_tokens, bench.first_token_seconds, bench.token_seconds)


def _bill(state: _State, requests: np.ndarray, bench: Bench, a: ServingAssumptions) -> tuple[float, float, int]:
    """Return accelerator-hours and USD of all hours (sized fleet, smaller model's time, look-ups), and the requests at once."""
    able = _able(state.limit, bench)
    sizes = zip(able["accelerators"], able["concurrency"], strict=True)
    shares = np.array(
        [work_share(bench.work, state.work, bench.model, bench.accelerator, int(width), int(slots)) for width, slots in sizes]
    )
    place, hours = cheapest_point(able, [requests * state.own_share], bench.first_token_seconds, a, shares)
    today = able.iloc[place]
    hours += (
        float(requests.sum()) * state.small_share / today["requests_per_accelerator_hour"] * bench.small_cost_share / (1 - a.headroom_share)
    )
    lookups = float(requests.sum()) / 1000 * a.semantic_lookup_usd_per_thousand if state.looked_up else 0.0
    return hours, hours * bench.usd_per_accelerator_hour + lookups, int(today["concurrency"])


def small_cost_share(
    small: pd.Series | None,
    bench_work: RequestWork,
    model: pd.Series,
    accelerator: pd.Series,
    accelerators: int,
    concurrency: int,
    a: ServingAssumptions,
) -> float:
    """Say what a request costs on the smaller model, as a share of its accelerator time on the larger, by the same roofline."""
    if small is None:
        return a.small_model_cost_share
    large = sum(phase_seconds(bench_work, model, accelerator, accelerators, concurrency))
    return min(1.0, sum(phase_seconds(bench_work, small, accelerator, 1, concurrency)) / large) if large > 0 else a.small_model_cost_share


def _headline(table: pd.DataFrame, base: float, together: float) -> str:
    """Say in one sentence what the levers save."""
    if base <= 0 or table.empty:
        return "Without traffic there is nothing to save."
    best = table.loc[table["saving_usd"].idxmax()]
    alone = float(table.loc[table["used"], "saving_usd"].sum()) / base
    return (
        f"All levers together would save {together / base:.0%} of the fleet's bill, not the {alone:.0%} that their single savings add up"
        f" to; the largest single one is {best['lever'].lower()} ({best['setting']}), with {best['saving_share']:.0%}."
    )
