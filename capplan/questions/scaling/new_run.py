"""What a new run will give: laws fitted by relative residuals from the smallest run on, with a band for the run itself."""

from dataclasses import dataclass

import numpy as np

from capplan.questions.scaling.laws import FORMS, fit_relative

#: Laws whose geometric mean predicts where none is named: contention that saturates, and a power law that never does.
AVERAGED = ("usl", "power")
#: What is known of the scatter of runs before a curve is looked at: its size (logarithm), as if seen in so many points. Public MLPerf and
#: MosaicML
#: curves scatter by 3 to 10 % around their laws.
PRIOR_SCATTER, PRIOR_POINTS = 0.06, 4.0
#: How far off a law is beyond the largest run, per unit of the logarithm of how far beyond (standard deviation): strong scaling changes
#: its batch and
#: parallelism on the way, weak scaling hardly. Chosen while looking at the families of
#: MLPerf Training v3.0 to v5.1 and MosaicML's benchmarks, so that their coverage is partly in-sample.
BEYOND = {"strong": 0.25, "mixed": 0.25, "weak": 0.06}


@dataclass(frozen=True)
class NewRun:
    """A predictor of runs on one curve."""

    laws: tuple[tuple[str, np.ndarray], ...]  #: Name and coefficients of the laws that are averaged.
    counts: np.ndarray  #: Accelerators of the measured runs (logarithms).
    base: float  #: Measured throughput per accelerator on the smallest count.
    #: scatter, freedom: Standard deviation of the logarithm of a run around its law, and the points it rests on.
    scatter: float
    freedom: float
    kind: str  #: strong, weak or mixed.

    def throughput(self, accelerators: np.ndarray | float) -> np.ndarray:
        """Return the expected throughput: the geometric mean of the laws, per accelerator never above the smallest run's."""
        n = np.atleast_1d(np.asarray(accelerators, dtype=float))
        logs = np.mean([np.log(FORMS[name][0](n, coefficients)) for name, coefficients in self.laws], axis=0)
        return np.minimum(np.exp(logs), self.base * np.maximum(n, np.exp(self.counts.min())))

    def efficiency(self, accelerators: np.ndarray | float) -> np.ndarray:
        """Return the expected throughput per accelerator over that measured in the smallest run; at most 1, and 1 up to it."""
        n = np.maximum(np.atleast_1d(np.asarray(accelerators, dtype=float)), np.exp(self.counts.min()))
        return np.where(n <= np.exp(self.counts.min()) * (1 + 1e-12), 1.0, np.minimum(self.throughput(n) / n / self.base, 1.0))

    def band(self, accelerators: np.ndarray, share: float) -> tuple[np.ndarray, np.ndarray]:
        r"""Return the ends between which a new run lies with a probability.

        .. math:: \ln X \pm t_{\nu}\sqrt{\sigma^2\,(1 + h(N)) + \kappa^2 \ln^2 \max(1, N/N_\text{max})}

        with the leverage h of a straight line over the logarithm of the count. Scaling better than the smallest run is not ruled out.
        """
        from scipy.stats import t

        n = np.atleast_1d(np.asarray(accelerators, dtype=float))
        place = np.log(n)
        middle, spread = self.counts.mean(), float(((self.counts - self.counts.mean()) ** 2).sum())
        inside = np.clip(place, self.counts.min(), self.counts.max())
        leverage = 1 / len(self.counts) + (inside - middle) ** 2 / spread
        beyond = BEYOND[self.kind] * np.maximum(0.0, place - self.counts.max())
        reach = t.ppf(0.5 + share / 2, self.freedom) * np.sqrt(self.scatter**2 * (1 + leverage) + beyond**2)
        expected = self.throughput(n)
        return expected * np.exp(-reach), expected * np.exp(reach)


def predictor(accelerators: np.ndarray, throughput: np.ndarray, kind: str, law: str | None = None) -> NewRun:
    """Fit a predictor on measured runs.

    Args:
        accelerators, throughput: The runs; at least two different counts.
        kind: strong, weak or mixed.
        law: The one law to follow; None = the mean of AVERAGED.
    """
    n, x = np.asarray(accelerators, dtype=float), np.asarray(throughput, dtype=float)
    laws = tuple((name, fit_relative(name, n, x)) for name in ((law,) if law else AVERAGED))
    off = np.mean([np.log(FORMS[name][0](n, coefficients)) for name, coefficients in laws], axis=0) - np.log(x)
    spare = max(0.0, len(n) - 2.0)
    scatter = np.sqrt((PRIOR_POINTS * PRIOR_SCATTER**2 + float((off**2).sum())) / (PRIOR_POINTS + spare))
    base = float(np.exp(np.log(x[n == n.min()] / n.min()).mean()))
    return NewRun(laws, np.log(n), base, float(scatter), PRIOR_POINTS + spare, kind)
