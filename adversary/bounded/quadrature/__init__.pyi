from .marginal import Marginal as Marginal
from .question import Question as Question
from .question import log_likelihood as log_likelihood
from .solve import Solution as Solution
from .solve import map_rows as map_rows
from .solve import solve_all as solve_all
