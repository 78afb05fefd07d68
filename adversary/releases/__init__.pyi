from .audited_records import gallery as gallery
from .record import Check as Check
from .record import Record as Record
from .record import Source as Source
from .record_file import RECORDS as RECORDS
from .record_file import read as read
from .record_file import records as records
from .report import releases_on_one_axis as releases_on_one_axis
