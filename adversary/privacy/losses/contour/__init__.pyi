from .certified_composition import GOAL as GOAL
from .certified_composition import RESOLUTION as RESOLUTION
from .certified_composition import Composition as Composition
from .certified_composition import Family as Family
from .certified_composition import normal_form as normal_form
