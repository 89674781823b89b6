"""Appends two rows with PyIceberg to a table that has the columns id, e halfvec(3), s sparsevec(5) and b bit(10).

usage: append.py DATABASE NAMESPACE.TABLE

The table is in a SQL catalog named overlake. Prints the number of rows that the table has then.
"""

import json
import sys

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog

database, name = sys.argv[1:]
table = SqlCatalog("overlake", uri=f"sqlite:///{database}").load_table(name)
table.append(pa.table({
    "id": pa.array([10, 11], pa.int64()),
    "e": pa.array([[0.5, -2, 65504], None], pa.list_(pa.field("element", pa.float32(), nullable=False))),
    "s": pa.array([{"size": 5, "indices": [0, 4], "values": [0.25, -1]}, None],
                  pa.struct([("size", pa.int32()), ("indices", pa.list_(pa.int32())), ("values", pa.list_(pa.float32()))])),
    "b": pa.array([bytes([0b10100000, 0b01000000]), None], pa.binary()),
}))
json.dump(table.scan().to_arrow().num_rows, sys.stdout)
