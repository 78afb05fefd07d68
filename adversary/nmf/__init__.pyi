from .file_layout import arrow as arrow
from .measurements import Measurements as Measurements
from .measurements import read as read
from .synthetic.recipe import Recipe as Recipe
from .synthetic.synthesis import synthesise as synthesise
from .synthetic.synthesis import truth_of as truth_of
