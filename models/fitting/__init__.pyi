from .arviz_groups import Groups as Groups
from .exact_gibbs import ExactGibbs as ExactGibbs
from .exact_gibbs import published_gibbs_law as published_gibbs_law
from .fit_release import fit as fit
from .fitter import Fitter as Fitter
from .histogram_gibbs import HistogramGibbs as HistogramGibbs
from .many_fits import fit_many as fit_many
from .margin_gibbs import MarginGibbs as MarginGibbs
