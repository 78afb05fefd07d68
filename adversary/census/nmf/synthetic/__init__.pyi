from .recipe import AXES as AXES
from .recipe import SHAPE as SHAPE
from .recipe import Recipe as Recipe
from .synthesis import synthesise as synthesise
from .synthesis import truth_of as truth_of
