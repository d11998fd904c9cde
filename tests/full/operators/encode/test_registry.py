"""Framed messages of Protobuf, by the schemas of a real registry."""

from __future__ import annotations

import pyarrow as pa
import pytest

from crenel.operators.encode.cells import CellType
from crenel.operators.encode.protobuf.fields import ProtobufFields
from crenel.operators.encode.protobuf.schema import MessageType
from crenel.operators.encode.schema_registry import SchemaRegistry
from tests.support.protobuf import descriptor_set, field, message_class
from tests.support.registry import Registry

pytestmark = pytest.mark.cluster

TEXT = """
syntax = "proto3";
package clinic;
message Other { string note = 1; }
message Outer {
  message Visit {
    string person = 1;
    repeated sint32 codes = 2;
    string phone = 7; // of a newer producer
  }
}
"""


def test_framed_messages_of_protobuf_are_read_by_the_schemas_of_a_registry(registry: Registry) -> None:
    of = [field("person", 1, "string"), field("codes", 2, "sint32", many=True)]
    outer = {"name": "Outer", "nested_type": [{"name": "Visit", "field": of}]}
    content = descriptor_set({"name": "v.proto", "package": "clinic", "syntax": "proto3", "message_type": [outer]})
    visit = message_class(content, "clinic.Outer.Visit")(person="ann", codes=[3, -1]).SerializeToString()
    number = registry.register_protobuf("protobuf_visits-value", TEXT)
    another = registry.register_protobuf("protobuf_others-value", 'syntax = "proto3"; message Other { int32 a = 1; }')
    avro = registry.register("protobuf_avro-value", {"type": "record", "name": "Visit", "fields": []})

    def framed(of: int, indexes: bytes) -> bytes:
        return b"\0" + of.to_bytes(4, "big") + indexes + visit

    # The indexes are their count and each of them, in zigzag form: the first message inside the second one.
    records = [framed(number, b"\4\2\0"), framed(number, b"\0"), framed(2**31 - 1, b"\4\2\0")]
    records += [framed(another, b"\0"), framed(avro, b"\4\2\0")]
    message = MessageType(content, "clinic.Outer.Visit")
    kinds = ((("person",), CellType("STRING")), (("codes[*]",), CellType("INT")))
    made = ProtobufFields(message, kinds, SchemaRegistry(registry.url))
    columns = [column._cells.to_pylist() for column in made.columns(pa.array(records))]
    assert columns == [["ann", *[None] * 4], [[3, -1], *[None] * 4]]
    assert made.unknown.by_field == {"phone": 1}
