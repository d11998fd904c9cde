"""Values of nested types as bytes, which Python carries from the source to ``released`` without reading them.

A value of a ROW, an array or a map would be a Python object for each of its parts. Two functions in Java pack it by
Flink's own serializer, and unpack it after the operator: exactly the same value, whatever it holds.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator

from crenel.jobs.pipeline.sql_types import SqlType, quote

_DATA = {"ROW": "RowData", "ARRAY": "ArrayData", "MAP": "MapData"}
"""Flink's internal class of a value, by name of its type."""

BYTES = ("BYTES", "VARBINARY", "BINARY")
NESTED = tuple(_DATA)
CARRIED = (*NESTED, *BYTES)
"""Types whose values pass through the operator as bytes."""

_SOURCE = """
package crenel;

import java.io.IOException;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.core.memory.DataInputDeserializer;
import org.apache.flink.core.memory.DataOutputSerializer;
import org.apache.flink.table.api.DataTypes;
import org.apache.flink.table.catalog.DataTypeFactory;
import org.apache.flink.table.data.ArrayData;
import org.apache.flink.table.data.MapData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.functions.FunctionContext;
import org.apache.flink.table.functions.ScalarFunction;
import org.apache.flink.table.runtime.typeutils.InternalSerializers;
import org.apache.flink.table.types.DataType;
import org.apache.flink.table.types.inference.ArgumentTypeStrategy;
import org.apache.flink.table.types.inference.InputTypeStrategies;
import org.apache.flink.table.types.inference.TypeInference;
import org.apache.flink.table.types.inference.TypeStrategies;
import org.apache.flink.table.types.logical.LogicalType;
import org.apache.flink.table.types.logical.utils.LogicalTypeParser;
import org.apache.flink.table.types.utils.DataTypeUtils;
import org.apache.flink.table.types.utils.TypeConversions;

/** FUNCTION of values of the type TYPE. */
public class CLASS extends ScalarFunction {
    private transient TypeSerializer serializer;
    private transient DataOutputSerializer written;

    private LogicalType type() {
        return LogicalTypeParser.parse(TYPE, CLASS.class.getClassLoader());
    }

    public void open(FunctionContext context) {
        serializer = InternalSerializers.create(type());
        written = new DataOutputSerializer(256);
    }

    public TypeInference getTypeInference(DataTypeFactory factory) {
        DataType value = DataTypeUtils.toInternalDataType(TypeConversions.fromLogicalToDataType(type()));
        DataType bytes = (DataType) DataTypes.BYTES();
        ArgumentTypeStrategy argument = InputTypeStrategies.explicit(FROM);
        return TypeInference.newBuilder()
            .inputTypeStrategy(InputTypeStrategies.sequence(new ArgumentTypeStrategy[] {argument}))
            .outputTypeStrategy(TypeStrategies.explicit(INTO))
            .build();
    }

    EVAL
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


def packed(name: str, sql: SqlType) -> str:
    """Return the SQL expression of a column as bytes."""
    if sql.name in BYTES:
        return quote(name) if sql.name == "BYTES" else f"CAST({quote(name)} AS BYTES)"
    return f"{_function('pack', sql)}({quote(name)})"


def unpacked(row: str, sql: SqlType) -> str:
    """Return the SQL expression of a value of its own type, from ``row``, a column of bytes."""
    if sql.name in BYTES:
        return row if sql.name == "BYTES" else f"CAST({row} AS {sql.text})"
    return f"{_function('unpack', sql)}({row})"


def packing_functions(types: Iterable[SqlType]) -> Iterator[tuple[str, str, str]]:
    """Yield name, class and Java source of the functions of ``packed`` and ``unpacked``; other types need none."""
    for sql in types:
        if sql.name not in _DATA:
            continue
        for what, eval_, ends in (("pack", _PACK, ("value", "bytes")), ("unpack", _UNPACK, ("bytes", "value"))):
            name = _function(what, sql)
            made = "".join(part.title() for part in name.split("_"))
            source = _SOURCE.replace("EVAL", eval_).replace("FROM", ends[0]).replace("INTO", ends[1])
            source = source.replace("FUNCTION", what).replace("DATA", _DATA[sql.name]).replace("CLASS", made)
            yield name, f"crenel.{made}", source.replace("TYPE", json.dumps(sql.text))


def _function(what: str, sql: SqlType) -> str:
    """Return the name of a function, one for each type."""
    return f"crenel_{what}_{hashlib.sha256(sql.text.encode()).hexdigest()[:16]}"
