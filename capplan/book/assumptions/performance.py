"""The assumptions of a replica's throughput and latency."""

from capplan.book.assumptions.base import Timeline, assumption


class PerformanceAssumptions(Timeline):
    """How fast one copy of a model serves, and how sure that is."""

    use_unfinished_runs: bool = assumption(
        False,
        "Are measurements used that their source calls work in progress? They are labelled so wherever they are.",
        "No: their source does not stand behind them.",
    )
    performance_band_share: float = assumption(
        0.9,
        "Share of measurements that the band of a latency should hold: nine in ten means that one in ten lies outside.",
        "Judgement: wide enough to plan by, narrow enough to be told apart from guessing.",
        "0.5 to 0.98 by 0.05 share",
    )
    first_token_p99_ratio: float = assumption(
        1.9,
        "99th percentile of the time to first token over its mean, where no measurement says it.",
        "MLPerf Inference v4.1, llama2-70b server: 0.461 s / 0.276 s = 1.67 on eight H100, 0.510 / 0.243 = 2.10 on eight H200.",
        "1 to 10 by 0.1 factor",
    )
    token_p99_ratio: float = assumption(
        1.15,
        "99th percentile of the time per output token over its mean, where no measurement says it.",
        "MLPerf Inference v4.1, llama2-70b server: 0.1754 s / 0.1550 s = 1.13 on eight H100, 0.1815 / 0.1569 = 1.16 on eight H200.",
        "1 to 10 by 0.05 factor",
    )
