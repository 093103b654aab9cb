"""Names of arrays, the same in every module."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Indices = Integers  # places in other arrays
Words = npt.NDArray[np.uint64]
