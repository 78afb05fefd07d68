from . import conditioned as conditioned
from . import counterfactual as counterfactual
from . import postprocessing as postprocessing
from . import queries as queries
from . import risk as risk
from . import spine as spine
