from . import frameworks as frameworks
