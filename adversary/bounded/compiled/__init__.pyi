from .likelihood import fill as fill
