from . import counterfactual as counterfactual
from . import known_totals as conditioned
from . import postprocessing as postprocessing
from . import risk as risk
from . import tables as queries
