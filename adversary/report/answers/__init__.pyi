from .audit_answer import how as how
from .bounds_answer import LEVELS as LEVELS
from .bounds_answer import PRIORS as PRIORS
from .explain_answer import EVERYONE as EVERYONE
from .explain_answer import ExplainRequest as ExplainRequest
