from .smoothing import LARGEST_KHAT as LARGEST_KHAT
from .smoothing import Hypotheses as Hypotheses
from .smoothing import Importance as Importance
from .truths import releases_under as releases_under
from .weighed_prior import DRAWS as DRAWS
from .weighed_prior import Sample as Sample
from .weighed_prior import WeighedPrior as WeighedPrior
from .worlds import PriorPredictive as PriorPredictive
