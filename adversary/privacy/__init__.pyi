from . import decisions as decisions
from . import definitions as definitions
from . import guarantee as guarantee
from . import invariants as invariants
from .guarantee import Guarantee as Guarantee
from .profiles import TOLERANCE as TOLERANCE
from .profiles import tolerated as tolerated
