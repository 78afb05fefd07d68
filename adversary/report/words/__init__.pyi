from .budget_facts import coverage as coverage
from .explanation import ALSO as ALSO
from .explanation import AUDIENCES as AUDIENCES
from .explanation import OF_GUARANTEES as OF_GUARANTEES
from .explanation import TOPICS as TOPICS
from .explanation import explain as explain
