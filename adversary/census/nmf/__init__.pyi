from .file_layout import arrow as arrow
from .measurements import Measurements as Measurements
from .measurements import read as read
from .synthetic import Recipe as Recipe
from .synthetic import synthesise as synthesise
from .synthetic import truth_of as truth_of
