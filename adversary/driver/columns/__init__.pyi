from .population_of_frame import population as population
from .population_of_frame import population_of_data as population_of_data
from .population_of_frame import resolve_tables as resolve_tables
from .side_information import counts_of_other_file as counts_of_other_file
from .side_information import largest_household as largest_household
from .text_numbers import NumberColumn as NumberColumn
from .text_numbers import decimal_marks as decimal_marks
from .text_numbers import read_numbers as read_numbers
