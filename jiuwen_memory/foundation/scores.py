"""Scores as other libraries and services give them. Pure; touches nothing."""

from __future__ import annotations

import math
from numbers import Real


def finite_score(value: object) -> float | None:
    """Return a number of any library's kind as a float; None for what is no number, NaN or beyond all bounds."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return None
    try:
        score = float(value)
    except OverflowError:
        return None
    return score if math.isfinite(score) else None
