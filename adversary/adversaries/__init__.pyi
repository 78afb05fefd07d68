from . import counterfactual as counterfactual
from . import known_totals as known_totals
from . import postprocessing as postprocessing
from . import risk as risk
from . import tables as tables
