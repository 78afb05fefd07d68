from .configurations import product as product
from .configurations import products as products
from .data_product import DataProduct as DataProduct
from .table_budget import TableBudget as TableBudget
