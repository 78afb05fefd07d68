from . import decisions as decisions
from . import definitions as definitions
from . import guarantee as guarantee
from . import invariants as invariants
from .guarantee import TOLERANCE as TOLERANCE
from .guarantee import Guarantee as Guarantee
