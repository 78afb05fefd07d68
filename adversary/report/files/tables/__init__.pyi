from .table_data import load_table_data as load_table_data
