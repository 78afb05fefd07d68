from . import bounded as bounded
from . import regression as regression
