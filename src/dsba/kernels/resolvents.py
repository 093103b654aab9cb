"""What the resolvents of operators on several scores are made of."""

import math
from typing import Any

from dsba.kernels.cache import njit, part

MAX_NEWTON = 200
"""Steps of an equation in one sample's scores. Each operator has an iteration of its own, because it is compiled into
the kernels, and its start and safeguards are those of its curve."""


@njit(cache=True)
def solve_auc(c: float, m: float, steps: Any, b0: float, b1: float, b2: float, b3: float) -> Any:
    """u + diag(steps) J u = b, u = (x'w, own, other, sign theta); every denominator is a sum of positive terms."""
    t0, t1, t2, t3 = steps
    D, lift = 1.0 + c * (t0 + t1), 1.0 + m * t1
    shared = (m * m * t1 * (1.0 + c * t0) + c * (c + m) * t0 + c * (c - m) * t1 + m) / D
    factor = 1.0 + t3 * (m * m * t2 + shared)
    rest = b3 + t3 * (b1 * (c - m - m * c * t0) - b0 * c * lift) / D
    h = (rest + t3 * m * b2) / factor
    u0 = b0 * ((1.0 + c * t1) / D) + t0 * c * (b1 + lift * h) / D
    u1 = b1 * ((1.0 + c * t0) / D) + t1 * (c * (b0 - h) + m * (1.0 + c * t0) * h) / D
    u2 = b2 * ((1.0 + t3 * shared) / factor) - t2 * m * rest / factor
    return u0, u1, u2, h


@part()
def solve_paper_auc(c: float, m: float, steps: Any, b0: float, b1: float, b2: float) -> Any:
    """u + diag(steps) J u = b, u = (x'w, own, sign theta), for the paper's components."""
    t0, t1, t2 = steps
    near, rest = 1.0 + c * t1, 1.0 + m * t2
    u0 = (b0 + t0 * c * (b1 / near + b2 / rest)) / (1.0 + t0 * c / near + t0 * c * (t2 * c / rest))
    return u0, (b1 + t1 * c * u0) / near, (b2 - t2 * c * u0) / rest


@njit(cache=True)
def resolve_paper_auc(p: float, rounds: int, b: Any, t: float, s: Any, y: float, out: Any) -> None:
    """out <- u with u + t diag(s) g(u) = b, for the paper's components."""
    sign = 1.0 if y > 0.0 else -1.0
    c, m = 1.0 + sign - sign * 2.0 * p, 2.0 * p * (1.0 - p)
    steps = (t * s[0], t * s[1], t * s[2])
    u0, u1, u2 = 0.0, 0.0, 0.0
    for _ in range(rounds):
        v0, v1, v2 = solve_paper_auc(
            c, m, steps,
            b[0] - u0 - steps[0] * c * (u0 - u1 - u2 - sign),
            b[1] - u1 - steps[1] * c * (u1 - u0),
            sign * b[2] - u2 - steps[2] * (m * u2 + c * u0),
        )  # fmt: skip
        u0, u1, u2 = u0 + v0, u1 + v1, u2 + v2
    out[0], out[1], out[2] = u0, u1, sign * u2


@part()
def _near_omega(x: float, l: float) -> Any:
    """About the w > 0 with w + log w = x, and l = log w, by Newton's iteration from a guess of l.

    l + exp(l) is convex: from the second trial on the iteration comes from above and cannot overshoot. A sum of
    several w is later divided by a sum of w / (1 + w), so that l is off by at most 0.001 / (1 + w).
    """
    for _ in range(MAX_NEWTON):
        l = min(l, x)  # as w > 0; a guess above could overflow
        w = math.exp(l)
        step = (l + w - x) / (1.0 + w)
        l -= step
        if step * step * (1.0 + w) <= 0.001:
            break
    return w * (1.0 - step + 0.5 * step * step), l


@njit(cache=True)
def near_softmax(b: Any, t: float, label: int, out: Any) -> None:
    """out <- about the u with u + t (softmax(u) - e_y) = b, by one unknown: m = log sum exp(u), off by 0.01.

    With v = b + t e_y the equations are u_c + t exp(u_c - m) = v_c. So w_c = t p_c solves
    w + log w = v_c - m + log t, and m makes the p_c sum to 1. That sum falls with m and is convex, so Newton from the
    left, m = max v - t, does not overshoot. ``out`` holds log w, which changes little from one m to the next.
    """
    top = b[label] + t
    for c in range(len(b)):
        top = max(top, b[c])
    m, log_t = top - t, math.log(t)
    for c in range(len(b)):
        x = (b[c] + t if c == label else b[c]) - m + log_t
        out[c] = math.log(x) if x > 2.0 else x
    for _ in range(MAX_NEWTON):
        total, slope = 0.0, 0.0
        for c in range(len(b)):
            x = (b[c] + t if c == label else b[c]) - m + log_t
            w, out[c] = _near_omega(x, out[c])
            total += w / t
            slope += w / t / (1.0 + w)
        step = (total - 1.0) / slope
        m += step
        if not step > 0.01:
            break
    for c in range(len(b)):
        out[c] += m - log_t
