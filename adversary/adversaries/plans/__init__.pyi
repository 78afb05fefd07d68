from .noise_descriptions import levels_of_noise as levels_of_noise
from .plan import NOT_LEVELS as NOT_LEVELS
from .plan import Level as Level
from .plan import Plan as Plan
from .release import Released as Released
from .release import make_release as make_release
from .release import observed as observed
from .release import release_arrays as release_arrays
