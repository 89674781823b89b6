"""Reads an Iceberg table with PyIceberg and its data files with DuckDB, and says what they see.

usage: read.py REQUESTS

REQUESTS is a JSON list of objects {table, query, files}. A table is a metadata file, or DATABASE:NAMESPACE.TABLE for one in
a SQL catalog named overlake in a SQLite database. The query runs over a view named t. The answer is a JSON list with one
object for each request: what the query gives over PyIceberg's rows (pyiceberg) and, where files is true, over the data
files alone as DuckDB reads them (duckdb), and everything that the manifests say about a file and that the file does not
keep (problems).
"""

import datetime
import json
import math
import os
import sys

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.conversions import from_bytes
from pyiceberg.table import StaticTable
from pyiceberg.types import PrimitiveType


def text(rows):
    return [[None if v is None else str(v) for v in row] for row in rows]


def run(relation, query):
    con = duckdb.connect()
    con.execute("SET TimeZone = 'UTC'")
    con.register("arrived", relation)
    con.execute("CREATE VIEW t AS SELECT * FROM arrived")
    return text(con.execute(query).fetchall())


def local(path):
    return path.removeprefix("file://")


def leaves(field, array):
    """Yields the primitive leaves of a column with their field ids, without lists and maps, which carry no bounds."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if pa.types.is_struct(array.type):
        for i in range(array.type.num_fields):
            yield from leaves(array.type.field(i), array.field(i))
    elif not (pa.types.is_list(array.type) or pa.types.is_map(array.type) or pa.types.is_large_list(array.type)):
        meta = field.metadata or {}
        yield int(meta.get(b"PARQUET:field_id", b"-1")), array


def check_file(schema, data):
    """Compares a manifest entry with the file it speaks of."""
    problems = []
    path = local(data.file_path)
    table = pq.read_table(path, partitioning=None)

    def bad(what):
        problems.append(f"{path}: {what}")

    if table.num_rows != data.record_count:
        bad(f"record_count {data.record_count}, the file has {table.num_rows}")
    if os.path.getsize(path) != data.file_size_in_bytes:
        bad(f"file_size_in_bytes {data.file_size_in_bytes}, the file has {os.path.getsize(path)}")
    groups = pq.ParquetFile(path).metadata.num_row_groups
    if data.split_offsets is not None and len(data.split_offsets) != groups:
        bad(f"{len(data.split_offsets)} split offsets, {groups} row groups")
    known = set(schema.field_ids)
    for field in table.schema:
        for fid, array in leaves(field, table.column(field.name)):
            if fid < 0:
                bad(f"column {field.name} has no field id")
                continue
            if fid not in known:
                continue  # dropped since
            kind = schema.find_field(fid).field_type
            values = [v for v in array.to_pylist() if v is not None]
            if data.null_value_counts and fid in data.null_value_counts and data.null_value_counts[fid] != array.null_count:
                bad(f"{field.name}: {data.null_value_counts[fid]} nulls, the file has {array.null_count}")
            nans = sum(1 for v in values if isinstance(v, float) and math.isnan(v))
            if data.nan_value_counts and fid in data.nan_value_counts and data.nan_value_counts[fid] != nans:
                bad(f"{field.name}: {data.nan_value_counts[fid]} NaNs, the file has {nans}")
            numbers = [v for v in values if not (isinstance(v, float) and math.isnan(v))]
            for name, bounds, worst in (("lower", data.lower_bounds, min), ("upper", data.upper_bounds, max)):
                if not bounds or fid not in bounds:
                    # Bounds are optional, but pruning lives by them. A text of large characters may have no upper bound, and
                    # an empty one may stand for no lower bound.
                    if numbers and isinstance(kind, PrimitiveType) and not pa.types.is_struct(field.type) and str(kind) not in ("string", "binary"):
                        bad(f"{field.name}: no {name} bound")
                    continue
                if not numbers:
                    bad(f"{field.name}: a {name} bound without values")
                    continue
                bound = from_bytes(kind, bounds[fid])
                true = worst(numbers)
                bound, true = comparable(kind, bound), comparable(kind, true)
                holds = bound <= true if name == "lower" else bound >= true
                exact = str(kind) not in ("string", "binary") and not str(kind).startswith("fixed")
                if not holds or exact and bound != true:
                    bad(f"{field.name}: {name} bound {bound!r}, the file has {true!r}")
    return problems


def comparable(kind, value):
    """Gives bounds and values of one type one form: days, microseconds, bytes."""
    name = str(kind)
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, datetime.datetime):
        epoch = datetime.datetime(1970, 1, 1, tzinfo=value.tzinfo)
        return (value - epoch) // datetime.timedelta(microseconds=1)
    if isinstance(value, datetime.date):
        return (value - datetime.date(1970, 1, 1)).days
    if isinstance(value, datetime.time):
        return ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond
    if name == "uuid":
        return value.bytes if hasattr(value, "bytes") else bytes(value)
    return value


def read(request):
    source, query = request["table"], request["query"]
    if source.endswith(".json"):
        table = StaticTable.from_metadata(source)
    else:
        database, name = source.rsplit(":", 1)
        table = SqlCatalog("overlake", uri=f"sqlite:///{database}").load_table(name)
    out = {"pyiceberg": run(table.scan().to_arrow(), query)}
    tasks = list(table.scan().plan_files())
    out["problems"] = [p for t in tasks for p in check_file(table.schema(), t.file)]
    if request["files"]:
        con = duckdb.connect()
        con.execute("SET TimeZone = 'UTC'")
        paths = ", ".join("'" + local(t.file.file_path).replace("'", "''") + "'" for t in tasks)
        con.execute(f"CREATE VIEW t AS SELECT * FROM read_parquet([{paths}], hive_partitioning = false)")
        out["duckdb"] = text(con.execute(query).fetchall())
    return out


json.dump([read(r) for r in json.loads(sys.argv[1])], sys.stdout)
