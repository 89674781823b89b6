"""Reads Puffin files with PyIceberg and says what is in them.

usage: puffin.py FILE ...

Prints a JSON list with one object for each file: its properties, and for each blob what the footer says of it (meta) and its
plain bytes in hexadecimal (data).
"""

import json
import sys

from pyiceberg.table.puffin import PuffinFile


def read(path):
    with open(path, "rb") as f:
        file = PuffinFile(f.read())
    return {
        "properties": file.footer.properties,
        "blobs": [{"meta": b.model_dump(by_alias=True), "data": file.get_blob_payload(b).hex()} for b in file.footer.blobs],
    }


json.dump([read(p) for p in sys.argv[1:]], sys.stdout)
