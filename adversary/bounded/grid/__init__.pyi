from .line import Marginal as Marginal
from .mixtures import TruncatedGammaMixture as TruncatedGammaMixture
from .mixtures import gamma_laplace_logz as gamma_laplace_logz
from .mixtures import normal_laplace_logpdf as normal_laplace_logpdf
from .noisy_likelihood import log_likelihood as log_likelihood
from .question import Question as Question
from .solve import Solution as Solution
from .solve import solve_all as solve_all
