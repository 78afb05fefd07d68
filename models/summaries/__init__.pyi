from .bounded_data import bounded as bounded
from .bounded_data import released_statistics as released_statistics
from .regression_model import regression as regression
