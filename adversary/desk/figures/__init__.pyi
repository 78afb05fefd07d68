from .tornado import INPUTS as INPUTS
from .tornado import input_value as input_value
