from .likelihood import log_likelihood as log_likelihood
from .variance_law import Seen as Seen
