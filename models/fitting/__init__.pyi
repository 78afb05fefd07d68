from .arviz_groups import Groups as Groups
from .arviz_groups import label_arrays as label_arrays
from .fit_release import fit as fit
from .fitter import Fitter as Fitter
from .gibbs_step import GibbsStep as GibbsStep
from .gibbs_step import Point as Point
from .many_fits import fit_many as fit_many
from .margin_gibbs import MarginGibbs as MarginGibbs
