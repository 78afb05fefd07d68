from .line_gibbs import LineProblem as LineProblem
from .line_gibbs import sample as sample
