from .line_gibbs import LineProblem as LineProblem
from .line_gibbs import sample_chain as sample_chain
