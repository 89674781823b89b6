"""Writes tables with PyIceberg for us to read.

usage: write.py DATABASE WAREHOUSE QUERY

Makes the tables py.plain, py.parted, py.evolved and py.deleted in a SQL catalog named overlake, and prints for each its
metadata file and what QUERY (over a view named t) gives there by PyIceberg's own reading.
"""

import datetime
import decimal
import json
import sys
import uuid

import duckdb
import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform
from pyiceberg.types import LongType, StringType, TimestampType, NestedField


def run(relation, query):
    con = duckdb.connect()
    con.execute("SET TimeZone = 'UTC'")
    con.register("arrived", relation)
    con.execute("CREATE VIEW t AS SELECT * FROM arrived")
    return [[None if v is None else str(v) for v in row] for row in con.execute(query).fetchall()]


def rows(lo, hi):
    day = datetime.datetime(2026, 1, 1)
    return pa.table({
        "id": pa.array(range(lo, hi), pa.int64()),
        "cat": pa.array([None if i % 7 == 0 else f"c{i % 3}" for i in range(lo, hi)], pa.string()),
        "ts": pa.array([day + datetime.timedelta(hours=i) for i in range(lo, hi)], pa.timestamp("us")),
    })


def main():
    database, warehouse, query = sys.argv[1:]
    catalog = SqlCatalog("overlake", uri=f"sqlite:///{database}", warehouse=f"file://{warehouse}")
    catalog.create_namespace("py")
    made = []

    many = pa.table({
        "id": pa.array([1, 2, 3], pa.int64()),
        "cat": pa.array(["a", None, "é"], pa.string()),
        "ts": pa.array([datetime.datetime(2026, 1, 1), None, datetime.datetime(1969, 12, 31, 23, 59, 59, 999999)], pa.timestamp("us")),
        "n": pa.array([decimal.Decimal("1.25"), None, decimal.Decimal("-0.01")], pa.decimal128(9, 2)),
        "f": pa.array([1.5, float("nan"), None], pa.float32()),
        "x": pa.array([b"\x00\xff", b"", None], pa.binary()),
        "u": pa.array([uuid.UUID(int=1).bytes, None, uuid.UUID(int=2).bytes], pa.binary(16)),
        "l": pa.array([[1, None], [], None], pa.list_(pa.int32())),
        "s": pa.array([{"p": 1, "q": "x"}, None, {"p": None, "q": None}], pa.struct([("p", pa.int32()), ("q", pa.string())])),
    })
    t = catalog.create_table("py.plain", many.schema)
    t.append(many)
    made.append(t)

    t = catalog.create_table("py.parted", Schema(
        NestedField(1, "id", LongType()), NestedField(2, "cat", StringType()), NestedField(3, "ts", TimestampType())),
        partition_spec=PartitionSpec(
            PartitionField(1, 1000, BucketTransform(4), "id_bucket"), PartitionField(2, 1001, IdentityTransform(), "cat"),
            PartitionField(3, 1002, DayTransform(), "ts_day")))
    t.append(rows(0, 60))
    t.append(rows(60, 100))
    made.append(t)

    t = catalog.create_table("py.evolved", rows(0, 1).schema)
    t.append(rows(0, 10))
    with t.update_schema() as change:
        change.rename_column("cat", "kind")
    with t.update_schema() as change:
        change.add_column("cat", StringType())
    more = rows(10, 20)
    t.append(more.append_column("kind", more.column("cat")).select(["id", "kind", "ts", "cat"]))
    made.append(t)

    t = catalog.create_table("py.deleted", rows(0, 1).schema)
    t.append(rows(0, 50))
    t.delete("id >= 10 and id < 20")
    t.overwrite(rows(100, 110), overwrite_filter="id = 30")
    made.append(t)

    out = {}
    for t in made:
        out[".".join(t.name())] = {"metadata": t.metadata_location.removeprefix("file://"), "answer": run(t.scan().to_arrow(), query)}
    json.dump(out, sys.stdout)


main()
