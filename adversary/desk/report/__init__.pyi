from .audit_answer import how as how
from .explain_answer import EVERYONE as EVERYONE
from .explain_answer import ExplainRequest as ExplainRequest
from .spine_page import write_reports as write_reports
