from .table_data import load_table_data as load_table_data
from .table_text import parse_table as parse_table
from .tables_file import TablesFile as TablesFile
from .tables_file import load_tables_file as load_tables_file
