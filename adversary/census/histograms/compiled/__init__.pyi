from .line_gibbs import Problem as Problem
from .line_gibbs import sample as sample
