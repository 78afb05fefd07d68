from .audit_answer import how as how
from .explain_answer import EVERYONE as EVERYONE
from .explain_answer import ExplainRequest as ExplainRequest
