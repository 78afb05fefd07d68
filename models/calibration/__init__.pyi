from .posteriors_to_rank import Enumerated as Enumerated
from .posteriors_to_rank import posterior_of as posterior_of
from .simulation_based import calibrate as calibrate
from .simulation_based import uniformity as uniformity
