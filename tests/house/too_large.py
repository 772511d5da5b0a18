"""Functions that are wider or longer, and modules that are longer, than the house allows: the lists may only get shorter."""

WIDE = frozenset(
    (
        "cli/commands.py:plan",
        "cli/commands.py:sweep",
        "optimize/mixing.py:mix_levels",
        "outputs/charts/compare.py:bars",
        "outputs/charts/compare.py:tornado",
        "outputs/charts/over_time.py:curve",
        "outputs/charts/over_time.py:fan",
        "outputs/charts/over_time.py:layers",
        "outputs/charts/points.py:frontier",
        "outputs/charts/points.py:scatter",
        "outputs/charts/rows.py:heat_map",
        "questions/cluster/arrays.py:prepare",
        "questions/cluster/node_choice.py:_several_nodes",
        "questions/cluster/node_choice.py:choose",
        "questions/cluster/node_choice.py:choose_here",
        "questions/demand/events.py:apply_events",
        "questions/goodput/failure_by_failure.py:simulate_failures",
        "questions/ledger/tokens.py:request_usd",
        "questions/procurement/program/spend_agreements.py:agreement_rows",
        "questions/procurement/program/ways_to_serve.py:__init__",
        "questions/procurement/program/ways_to_serve.py:add_column",
        "questions/serving/replay_kernel.py:replay_steps",
        "questions/serving/staffing.py:fewest_servers",
        "questions/training/architecture.py:activation_bytes",
        "questions/training/layout.py:_state",
    )
)
LONG = frozenset(
    (
        "outputs/charts/compare.py:tornado",
        "outputs/charts/over_time.py:fan",
        "outputs/charts/rows.py:heat_map",
        "questions/cluster/kernel.py:_schedule",
        "questions/demand/forecast_demand.py:stated_demand",
        "questions/demand/level.py:level_posterior",
        "questions/procurement/program/first_stage.py:build_model",
        "questions/procurement/supply/choices.py:list_choices",
        "questions/serving/operating_points.py:_tried",
        "questions/serving/replay_kernel.py:replay_steps",
        "questions/training/layout.py:_evaluated",
        "questions/training/ways.py:compare_ways",
    )
)
LARGE = frozenset(("optimize/l_shaped.py", "outputs/views/goodput.py"))
