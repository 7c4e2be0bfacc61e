"""Columns of pages, of any shape and unit, measured block by block."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crawld.scheduler.value_series import Measures, measure

Floats = NDArray[np.float64]
BLOCK = 32768  # pages evaluated at once, so that temporaries stay in the cache


def columns(*arguments: ArrayLike) -> tuple[tuple[int, ...], list[Floats]]:
    """The common shape of the arguments, and each as a flat column of that many floats."""
    arrays = [np.asarray(argument, dtype=np.float64) for argument in arguments]
    shape = arrays[0].shape
    if any(array.shape != shape for array in arrays):
        shape = np.broadcast_shapes(*(array.shape for array in arrays))
        arrays = [np.broadcast_to(array, shape) for array in arrays]
    return shape, [array.reshape(-1) for array in arrays]


def measure_pages(
    x: Floats, alpha: Floats, kappa: Floats, gamma: Floats, *, length: bool = True, terms: float = np.inf
) -> Measures:
    """V, ψ and αψ′ of flat columns for importance 1, in any unit of time; of the first `terms` terms if limited."""
    if x.size <= BLOCK:
        return _measure_block(x, alpha, kappa, gamma, length=length, terms=terms)
    parts = [
        _measure_block(x[now], alpha[now], kappa[now], gamma[now], length=length, terms=terms)
        for now in (slice(start, start + BLOCK) for start in range(0, x.size, BLOCK))
    ]
    return Measures(
        np.concatenate([part.value for part in parts]),
        np.concatenate([part.length for part in parts]),
        np.concatenate([part.density for part in parts]),
        np.concatenate([part.unrest for part in parts]),
    )


def _measure_block(x: Floats, alpha: Floats, kappa: Floats, gamma: Floats, *, length: bool, terms: float) -> Measures:
    with np.errstate(all="ignore"):
        unit = np.maximum(alpha, gamma)
        if np.count_nonzero(unit) < unit.size:
            unit = np.where(unit > 0, unit, 1.0)
        result = measure(x, alpha / unit, kappa, gamma / unit, length=length, terms=terms)
        result.value /= unit
        if length:
            result.length /= unit
            result.unrest = result.unrest * unit
    return result


def times(mu: Floats, value: Floats) -> Floats:
    """μ·V where an overflow is inf and nothing is ever worth a page of no importance."""
    with np.errstate(all="ignore"):
        return weigh(mu, value)


def weigh(mu: Floats, value: Floats) -> Floats:
    """The same where floating-point warnings are off already."""
    product = mu * value
    return product if np.count_nonzero(np.isfinite(product)) == product.size else np.where(mu > 0, product, 0.0)
