"""Raw tables in, numbers out: reading CSV and Parquet, and the encoder that a model keeps."""

from cavity.tables.encode import Encoded, TableEncoder
from cavity.tables.read import Table, TableError, read_table

__all__ = ["Encoded", "Table", "TableEncoder", "TableError", "read_table"]
