from . import budget as budget
from . import census as census
