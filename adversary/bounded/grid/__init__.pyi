from .grid_input import GridInput as GridInput
from .line import LineLaw as LineLaw
from .mixtures import TruncatedGammaMixture as TruncatedGammaMixture
from .mixtures import gamma_laplace_logz as gamma_laplace_logz
from .mixtures import normal_laplace_logpdf as normal_laplace_logpdf
from .noisy_likelihood import log_likelihood as log_likelihood
from .solve import GridFit as GridFit
from .solve import solve_all as solve_all
