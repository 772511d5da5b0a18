"""Traffic of a service by hand: what its rates over its hours come to."""

import numpy as np
import pytest

from capplan.questions.crossover.service_traffic_by_path import Load, Work


def test_requests_peaks_and_years_of_traffic_in_two_regions():
    """Two paths, two quarters of a peak and a base block: rates are an hour's, and a quarter's requests are rates times hours."""
    us = np.array([[[10.0, 2.0], [20.0, 4.0]], [[1.0, 0.0], [0.0, 0.5]]])
    hours = np.array([[100.0, 2060.0], [110.0, 2074.0]])
    load = Load({"us": us, "eu": 3 * us}, hours, np.array([0.25, 0.75]), ["2027Q1", "2027Q2"], Work(peak_factor=1.5))
    assert load.requests == pytest.approx(4 * np.array([[10 * 100 + 2 * 2060, 20 * 110 + 4 * 2074], [100.0, 0.5 * 2074]]))
    assert load.peaks["us"] == pytest.approx(1.5 * np.array([[10.0, 20.0], [1.0, 0.5]]))
    assert load.peaks["eu"] == pytest.approx(3 * load.peaks["us"])
    assert load.years == pytest.approx([0.0, 0.25])
