from .audit_answer import MEASURES as MEASURES
from .audit_answer import how as how
from .audit_page import NAMES as NAMES
from .audit_page import check_replaced as check_replaced
from .audit_page import write_report as write_report
from .explain_answer import EVERYONE as EVERYONE
from .explain_answer import ExplainRequest as ExplainRequest
from .spine_page import write_reports as write_reports
