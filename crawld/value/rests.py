"""Rests of the exponential after its first terms, without cancellation."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

P2 = np.array([(k + 1) / float(np.prod(np.arange(1.0, k + 3))) * (-1) ** k for k in range(13)])
ETA = np.array([(-1) ** k / float(np.prod(np.arange(1.0, k + 4))) for k in range(17)])

_REST = np.array([(k + 2) / float(np.prod(np.arange(1.0, k + 4))) * (-1) ** k for k in range(19)])


def _horner(x: Floats, coefficients: Floats) -> Floats:
    """A polynomial."""
    falling = coefficients[::-1].tolist()
    total = np.full_like(x, falling[0])
    for coefficient in falling[1:]:
        total *= x
        total += coefficient
    return total


def erlang2(x: Floats) -> Floats:
    """P(2, x) = 1 − (1+x)e^−x without cancellation."""
    x = np.minimum(x, 800.0)
    result = -np.expm1(-x) - x * np.exp(-x)
    small = x < 0.3
    if np.count_nonzero(small):
        y = x[small]
        result[small] = y * y * _horner(y, P2)
    return result


def eta(y: Floats) -> Floats:
    """The value of y²/2 − y + 1 − e^−y, the third-order rest of the exponential, without cancellation."""
    result = y * (0.5 * y - 1) - np.expm1(-y)
    small = y < 1
    if np.count_nonzero(small):
        z = y[small]
        result[small] = z * z * z * _horner(z, ETA)
    return result


def epsilon(y: Floats) -> Floats:
    """The value of y − 1 + e^−y, the second-order rest of the exponential, without cancellation."""
    return np.where(y < 1, 0.5 * y * y - eta(np.minimum(y, 1.0)), y + np.expm1(-y))


def erlang2_rest(x: Floats) -> Floats:
    """x²/2 − P(2, x) without cancellation."""
    y = np.minimum(x, 1.0)
    return np.where(x < 1, y * y * y * _horner(y, _REST), 0.5 * x * x - erlang2(x))
