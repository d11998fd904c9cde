"""Values of nested types as bytes, which Python carries from the source to ``released`` without reading them.

A value of a ROW, an array or a map would be a Python object for each of its parts. Two functions in Java pack it by
Flink's own serializer, and unpack it after the operator: exactly the same value, whatever it holds.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from crenel.operators.column_types import BYTES, ColumnType

_DATA = {"ROW": "RowData", "ARRAY": "ArrayData", "MAP": "MapData"}
"""Flink's internal class of a value, by name of its type."""

_SOURCE = """
package crenel;

import java.io.IOException;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.core.memory.DataInputDeserializer;
import org.apache.flink.core.memory.DataOutputSerializer;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.DeserializationFeature;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.JsonNodeFactory;
import org.apache.flink.table.catalog.DataTypeFactory;
import org.apache.flink.table.data.ArrayData;
import org.apache.flink.table.data.DecimalData;
import org.apache.flink.table.data.GenericArrayData;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.MapData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.StringData;
import org.apache.flink.table.data.TimestampData;
import org.apache.flink.table.data.binary.BinaryStringData;
import org.apache.flink.table.data.binary.BinaryStringDataUtil;
import org.apache.flink.table.functions.FunctionContext;
import org.apache.flink.table.functions.ScalarFunction;
import org.apache.flink.table.runtime.typeutils.InternalSerializers;
import org.apache.flink.table.types.DataType;
import org.apache.flink.table.types.inference.ArgumentTypeStrategy;
import org.apache.flink.table.types.inference.InputTypeStrategies;
import org.apache.flink.table.types.inference.TypeInference;
import org.apache.flink.table.types.inference.TypeStrategies;
import org.apache.flink.table.types.logical.ArrayType;
import org.apache.flink.table.types.logical.LogicalType;
import org.apache.flink.table.types.logical.RowType;
import org.apache.flink.table.types.logical.utils.LogicalTypeParser;
import org.apache.flink.table.types.utils.DataTypeUtils;
import org.apache.flink.table.types.utils.TypeConversions;

/** PURPOSE */
public class CLASS extends ScalarFunction {
    private static LogicalType type(String text) {
        return LogicalTypeParser.parse(text, CLASS.class.getClassLoader());
    }

    private static DataType data(String text) {
        return DataTypeUtils.toInternalDataType(TypeConversions.fromLogicalToDataType(type(text)));
    }

    public TypeInference getTypeInference(DataTypeFactory factory) {
        return TypeInference.newBuilder()
            .inputTypeStrategy(InputTypeStrategies.sequence(new ArgumentTypeStrategy[] {ARGUMENTS}))
            .outputTypeStrategy(TypeStrategies.explicit(data(RESULT)))
            .build();
    }

    BODY
}
"""
_SERIALIZER = """private transient TypeSerializer serializer;
    private transient DataOutputSerializer written;

    public void open(FunctionContext context) {
        serializer = InternalSerializers.create(type(TYPE));
        written = new DataOutputSerializer(256);
    }

    """
_PACK = """public byte[] eval(DATA value) throws IOException {
        if (value == null) {
            return null;
        }
        written.clear();
        serializer.serialize(value, written);
        return written.getCopyOfBuffer();
    }"""
_UNPACK = """public DATA eval(byte[] bytes) throws IOException {
        return bytes == null ? null : (DATA) serializer.deserialize(new DataInputDeserializer(bytes));
    }"""


@dataclass(frozen=True)
class JavaFunction:
    """A scalar function of SQL, as ``crenel.jobs.pipeline.java_functions.register`` takes it.

    Attributes
    ----------
    name : in SQL
    class_name : of the class, with the package
    source : of the class, in Java
    """

    name: str
    class_name: str
    source: str


def java_function(
    verb: str, own: str, purpose: str, arguments: Sequence[str], result: str, body: str, shared: str = ""
) -> JavaFunction:
    """Return a function.

    Parameters
    ----------
    verb : begins the name
    own : a text that differs for each function of the verb, for the rest of the name
    purpose : comment of the class
    arguments, result : SQL types; values come and go in Flink's internal classes
    body : members of the class, with ``eval``
    shared : further classes, which are the same for all functions that have them
    """
    name = f"crenel_{verb}_{hashlib.sha256(own.encode()).hexdigest()[:16]}"
    class_name = "".join(part.title() for part in name.split("_"))
    explicit = ", ".join(f"InputTypeStrategies.explicit(data({json.dumps(text)}))" for text in arguments)
    parts = {"CLASS": class_name, "PURPOSE": purpose, "ARGUMENTS": explicit, "RESULT": json.dumps(result), "BODY": body}
    source = re.sub("|".join(parts), lambda part: parts[part[0]], _SOURCE)
    return JavaFunction(name, f"crenel.{class_name}", source + shared)


def packed(column: str, sql: ColumnType) -> str:
    """Return the SQL expression of a column as bytes."""
    if sql.name in BYTES:
        return column if sql.name == "BYTES" else f"CAST({column} AS BYTES)"
    return f"{_packing('pack', sql).name}({column})"


def unpacked(row: str, sql: ColumnType) -> str:
    """Return the SQL expression of a value of its own type, from ``row``, a column of bytes."""
    if sql.name in BYTES:
        return row if sql.name == "BYTES" else f"CAST({row} AS {sql.text})"
    return f"{_packing('unpack', sql).name}({row})"


def packing_functions(types: Iterable[ColumnType]) -> Iterator[JavaFunction]:
    """Yield the functions of ``packed`` and ``unpacked``; some types need none."""
    for sql in types:
        if sql.name in _DATA:
            yield _packing("pack", sql)
            yield _packing("unpack", sql)


def _packing(verb: str, sql: ColumnType) -> JavaFunction:
    types = (sql.text, "BYTES")
    source, (argument, result) = (_PACK, types) if verb == "pack" else (_UNPACK, types[::-1])
    body = (_SERIALIZER + source).replace("DATA", _DATA[sql.name]).replace("TYPE", json.dumps(sql.text))
    return java_function(verb, sql.text, f"{verb.title()} values of one type.", [argument], result, body)
