"""The one way from rows to a model. Estimators and ``dsba train`` are shells around it.

rows -> agreement between processes -> evening out of long rows -> intercept -> start -> solve -> model
"""

from dsba.fitting.files import train
from dsba.fitting.fit import Fit, fit_rows
from dsba.fitting.model import FittedModel
from dsba.fitting.rows import Rows, as_rows, numbered
from dsba.fitting.spec import FitSpec

__all__ = ["Fit", "FitSpec", "FittedModel", "Rows", "as_rows", "fit_rows", "numbered", "train"]
