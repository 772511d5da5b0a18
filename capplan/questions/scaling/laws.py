"""The laws of scaling: throughput as a function of the number of accelerators, and bounded fits of each.

All four are fitted by least squares on throughput with every parameter held at zero or above, so that no curve bends upwards
beyond what was measured. The Universal Scalability Law is written as X = N / (q + p N + r N (N - 1)), whose three coefficients are free of
each other:
gamma = 1 / (q + p), alpha = p / (q + p), beta = r / (q + p); bounds at zero then keep alpha in [0, 1].
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

#: Parameters of each law in the order of `Law.parameters`.
PARAMETERS = {
    "usl": ("alpha", "beta", "gamma"),
    "amdahl": ("alpha", "gamma"),
    "gustafson": ("serial", "gamma"),
    "power": ("exponent", "gamma"),
}


def _usl(n: np.ndarray, q: np.ndarray) -> np.ndarray:
    return n / (q[0] + q[1] * n + q[2] * n * (n - 1))


def _usl_parameters(q: np.ndarray) -> np.ndarray:
    return np.array([q[1], q[2], 1.0]) / (q[0] + q[1])


def _amdahl(n: np.ndarray, q: np.ndarray) -> np.ndarray:
    return n / (q[0] + q[1] * n)


def _amdahl_parameters(q: np.ndarray) -> np.ndarray:
    return np.array([q[1], 1.0]) / (q[0] + q[1])


def _gustafson(n: np.ndarray, q: np.ndarray) -> np.ndarray:
    return q[0] + q[1] * n


def _gustafson_parameters(q: np.ndarray) -> np.ndarray:
    return np.array([q[0] / (q[0] + q[1]), q[0] + q[1]])


def _power(n: np.ndarray, q: np.ndarray) -> np.ndarray:
    return q[1] * n ** q[0]


def _power_parameters(q: np.ndarray) -> np.ndarray:
    return q


FORMS: dict[str, tuple[Callable[[np.ndarray, np.ndarray], np.ndarray], Callable[[np.ndarray], np.ndarray]]] = {
    "usl": (_usl, _usl_parameters),
    "amdahl": (_amdahl, _amdahl_parameters),
    "gustafson": (_gustafson, _gustafson_parameters),
    "power": (_power, _power_parameters),
}


@dataclass(frozen=True)
class Law:
    """A fitted law.

    Args:
        name: usl, amdahl, gustafson or power.
        coefficients: Coefficients of the form that is fitted.
        covariance: Their covariance; zero for those that stand at a bound.
        freedom: Points less free coefficients.
        residual_standard_error: Root of the residual sum of squares over `freedom`; nan without any.
    """

    name: str
    coefficients: np.ndarray
    covariance: np.ndarray
    freedom: int
    residual_standard_error: float

    @property
    def parameters(self) -> dict[str, float]:
        """Parameters by the names the law is written with."""
        values = FORMS[self.name][1](self.coefficients)
        return dict(zip(PARAMETERS[self.name], map(float, values), strict=True))

    def parameter_errors(self) -> dict[str, float]:
        """Return standard errors of the parameters, by the delta method."""
        slope = _slope(FORMS[self.name][1], self.coefficients)
        errors = np.sqrt(np.clip(np.diag(slope @ self.covariance @ slope.T), 0, None))
        return dict(zip(PARAMETERS[self.name], map(float, errors), strict=True))

    def throughput(self, accelerators: np.ndarray | float) -> np.ndarray:
        """Throughput on a number of accelerators."""
        return FORMS[self.name][0](np.atleast_1d(np.asarray(accelerators, dtype=float)), self.coefficients)

    def marginal(self, accelerators: np.ndarray | float) -> np.ndarray:
        """Throughput that one more accelerator adds: the slope of the curve."""
        n, q = np.atleast_1d(np.asarray(accelerators, dtype=float)), self.coefficients
        if self.name == "gustafson":
            return np.full_like(n, q[1])
        if self.name == "power":
            return q[1] * q[0] * n ** (q[0] - 1)
        r = q[2] if self.name == "usl" else 0.0
        return (q[0] - r * n**2) / (q[0] + q[1] * n + r * n * (n - 1)) ** 2

    def band(self, accelerators: np.ndarray, confidence_share: float) -> tuple[np.ndarray, np.ndarray]:
        """Confidence band of the mean curve, by the delta method; nan where no point is left over to judge the fit by."""
        from scipy.stats import t

        n = np.asarray(accelerators, dtype=float)
        middle = self.throughput(n)
        if self.freedom < 1:
            return np.full_like(middle, np.nan), np.full_like(middle, np.nan)
        slope = _slope(lambda q: FORMS[self.name][0](n, q), self.coefficients)
        spread = np.sqrt(np.clip(np.einsum("ij,jk,ik->i", slope, self.covariance, slope), 0, None))
        reach = t.ppf(0.5 + confidence_share / 2, self.freedom) * spread
        return np.clip(middle - reach, 0, None), middle + reach


def fit_law(name: str, accelerators: np.ndarray, throughput: np.ndarray) -> Law:
    """Fit one law to measured points by bounded least squares.

    Args:
        name: usl, amdahl, gustafson or power.
        accelerators, throughput: The points; at least as many different counts as the law has parameters.
    """
    from scipy.optimize import least_squares, nnls

    n, x = np.asarray(accelerators, dtype=float), np.asarray(throughput, dtype=float)
    form = FORMS[name][0]
    upper = np.array([1.0, np.inf]) if name == "power" else np.inf
    if name == "power":
        exponent, level = np.polyfit(np.log(n), np.log(x), 1)
        start = np.array([np.clip(exponent, 1e-6, 1 - 1e-6), np.exp(level)])
    else:
        columns = {"usl": [np.ones_like(n), n, n * (n - 1)], "amdahl": [np.ones_like(n), n], "gustafson": [np.ones_like(n), n]}[name]
        # N / X is linear in the coefficients of the first two laws, X itself in Gustafson's; weights turn errors of N / X into errors of X.
        weight, target = (np.ones_like(x), x) if name == "gustafson" else (x**2 / n, n / x)
        design = np.column_stack(columns) * weight[:, None]
        size = np.linalg.norm(design, axis=0)
        start = nnls(design / size, target * weight)[0] / size
    # Coefficients of a law can differ by ten orders of magnitude: each is measured in its own size, throughput in its largest value.
    typical = _sizes(name, n, x)
    scale = float(x.max())
    fitted = least_squares(
        lambda u: (form(n, u * typical) - x) / scale,
        np.clip(start / typical, 1e-12, (upper / typical if name == "power" else np.inf)),
        bounds=(0.0, upper / typical),
        xtol=1e-15,
        ftol=1e-15,
        gtol=1e-15,
        max_nfev=2000,
    )
    found = fitted.x
    # A coefficient that an interior method leaves a hair above its bound stands at it.
    for place in np.flatnonzero(found < 1e-7):
        tried = found.copy()
        tried[place] = 0.0
        if np.sum((form(n, tried * typical) - x) ** 2) <= np.sum((form(n, found * typical) - x) ** 2) * (1 + 1e-6) + 1e-24 * scale**2:
            found = tried
    coefficients = found * typical
    free = found > 0
    if name == "power":
        free[0] = 0 < found[0] < 1 - 1e-9
    freedom = len(n) - int(free.sum())
    slope = _slope(lambda q: form(n, q), coefficients)[:, free]
    residual = float(np.sum((form(n, coefficients) - x) ** 2))
    covariance = np.zeros((len(coefficients), len(coefficients)))
    if freedom > 0:
        covariance[np.ix_(free, free)] = residual / freedom * _inverse(slope)
    return Law(name, coefficients, covariance, freedom, float(np.sqrt(residual / freedom)) if freedom > 0 else float("nan"))


def fit_relative(name: str, accelerators: np.ndarray, throughput: np.ndarray) -> np.ndarray:
    r"""Return the coefficients of a law that are least off in proportion: small runs count as much as large ones.

    .. math:: \min \sum_i \left(\ln X(N_i) - \ln x_i\right)^2

    Args:
        name, accelerators, throughput: As `fit_law`.
    """
    from scipy.optimize import least_squares

    n, x = np.asarray(accelerators, dtype=float), np.asarray(throughput, dtype=float)
    form, typical = FORMS[name][0], _sizes(name, n, x)
    upper = np.array([1 / typical[0], np.inf]) if name == "power" else np.inf
    starts = [
        fit_law(name, n, x).coefficients / typical,
        np.array([0.9, *[0.1] * (len(typical) - 1)]),
        np.array([0.5, 0.5, 1e-3][: len(typical)]),
    ]
    found = [
        least_squares(
            lambda u: np.log(form(n, u * typical) / x),
            np.clip(start, 1e-9, upper),
            bounds=(0.0, upper),
            xtol=1e-12,
            ftol=1e-12,
            gtol=1e-12,
            max_nfev=2000,
        )
        for start in starts
    ]
    return np.asarray(min(found, key=lambda one: one.cost).x * typical)


def _sizes(name: str, n: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Sizes of the coefficients at which each term alone would explain the largest run."""
    top = int(np.argmax(n))
    if name == "power":
        return np.array([1.0, float(x[top])])
    if name == "gustafson":
        return np.array([float(x[top]), float(x[top] / n[top])])
    whole = float(n[top] / x[top])
    sizes = [whole, whole / n[top], whole / (n[top] * max(n[top] - 1, 1.0))]
    return np.array(sizes[: 3 if name == "usl" else 2])


def _slope(function: Callable[[np.ndarray], np.ndarray], at: np.ndarray) -> np.ndarray:
    """Differentiate a function of the coefficients, by central differences."""
    columns = []
    for place in range(len(at)):
        step = 1e-6 * (abs(at[place]) or max(float(np.max(np.abs(at))) * 1e-6, 1e-12))
        up, down = at.copy(), at.copy()
        up[place] += step
        down[place] -= step
        columns.append((function(up) - function(down)) / (2 * step))
    return np.column_stack(columns)


def _inverse(slope: np.ndarray) -> np.ndarray:
    """Inverse of slope' slope, computed with columns of unit length."""
    size = np.linalg.norm(slope, axis=0)
    unit = slope / size
    return np.linalg.pinv(unit.T @ unit) / np.outer(size, size)
