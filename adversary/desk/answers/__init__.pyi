from .bounds_answer import LEVELS as LEVELS
from .bounds_answer import PRIORS as PRIORS
from .exact_guarantees import parameter as parameter
from .profile_verdict import SURE as SURE
