from .bounds_answer import LEVELS as LEVELS
from .bounds_answer import PRIORS as PRIORS
