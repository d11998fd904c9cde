"""Compile the readers of records ahead of their first use: ``python -m crenel.operators.encode.precompile``."""

from __future__ import annotations

from crenel.operators.encode import json_scan, packed_arrays
from crenel.operators.encode.avro import fields as avro
from crenel.operators.encode.protobuf import fields as protobuf


def main() -> None:
    """Compile all of them."""
    for each in (json_scan, packed_arrays, avro, protobuf):
        each.precompile()


if __name__ == "__main__":
    main()
