"""Arrays of JSON records, as a function in Java.

Flink's ``JSON_QUERY`` leaves out the rows of an array that lack a field, so that the values of two fields would not
match. Here each row of the array has its value, or a missing one. A value is read as a field of that type is: by
``JSON_VALUE`` and ``TRY_CAST``, and a time by ``sql_times``. A value of another kind is missing, and so is an array
that is none.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from crenel.jobs.pipeline.packing import JavaFunction, java_function
from crenel.jobs.pipeline.sql_times import CLASS, value_of
from crenel.operators.column_types import ColumnType

_TEXT = "BinaryStringData.fromString(text)"
_TRIMMED = f"{_TEXT}.trim()"
_VALUES = {
    "STRING": "StringData.fromString(text)",
    "BOOLEAN": f"(Object) new Boolean(BinaryStringDataUtil.toBoolean({_TEXT}))",
    "TINYINT": f"(Object) new Byte(BinaryStringDataUtil.toByte({_TRIMMED}))",
    "SMALLINT": f"(Object) new Short(BinaryStringDataUtil.toShort({_TRIMMED}))",
    "INT": f"(Object) new Integer(BinaryStringDataUtil.toInt({_TRIMMED}))",
    "BIGINT": f"(Object) new Long(BinaryStringDataUtil.toLong({_TRIMMED}))",
    "FLOAT": f"(Object) new Float(BinaryStringDataUtil.toFloat({_TRIMMED}))",
    "DOUBLE": f"(Object) new Double(BinaryStringDataUtil.toDouble({_TRIMMED}))",
    "DECIMAL": f"BinaryStringDataUtil.toDecimal({_TRIMMED}, PRECISION, SCALE)",
    "TIME": f"(Object) new Integer(BinaryStringDataUtil.toTime({_TEXT}, PRECISION))",
}
"""Value of a text, by type but times; a text that is none raises, as a cast does."""

_BODY = """private static JsonNode at(JsonNode node, String name) {
        return node == null ? null : (JsonNode) node.get(name);
    }

    private static JsonNode at(JsonNode node, int position) {
        return node == null ? null : (JsonNode) node.get(position);
    }

    private static Object value(JsonNode node) {
        if (node == null || node.isNull() || !node.isValueNode()) {
            return null;
        }
        String text = node.isBigDecimal() ? node.decimalValue().toString() : node.asText();
        try {
            return VALUE;
        } catch (RuntimeException error) {
            return null;
        }
    }

    public ArrayData eval(StringData json) {
        if (json == null) {
            return null;
        }
        JsonNode record = ParsedJson.of(json.toString());
        JsonNode items = ARRAY;
        if (items == null || !items.isArray()) {
            return null;
        }
        Object[] values = new Object[items.size()];
        for (int i = 0; i < values.length; i++) {
            JsonNode item = (JsonNode) items.get(i);
            values[i] = value(ITEM);
        }
        return new GenericArrayData(values);
    }"""

_PARSED = """
/** The JSON record that a thread parsed last: the functions of one record's arrays share it. */
public class ParsedJson {
    private static final ThreadLocal LAST = new ThreadLocal();
    private static final ObjectMapper MAPPER = mapper();

    private static ObjectMapper mapper() {
        ObjectMapper mapper = new ObjectMapper();
        mapper.configure(DeserializationFeature.USE_BIG_DECIMAL_FOR_FLOATS, true);
        mapper.setNodeFactory(JsonNodeFactory.withExactBigDecimals(true));
        return mapper;
    }

    /** Returns the record of a text; null where it is none. */
    public static JsonNode of(String text) {
        Object[] last = (Object[]) LAST.get();
        if (last == null || !text.equals(last[0])) {
            last = new Object[] {text, parsed(text)};
            LAST.set(last);
        }
        return (JsonNode) last[1];
    }

    private static JsonNode parsed(String text) {
        try {
            return (JsonNode) MAPPER.readTree(text);
        } catch (IOException error) {
            return null;
        }
    }
}
"""
"""A class of all functions, in the jar of each of them: one class loader has them all, and takes it from one jar."""


def json_array_function(element: ColumnType, array: Sequence[str | int], item: Sequence[str | int]) -> JavaFunction:
    """Return a function from a JSON record to an array.

    Parameters
    ----------
    element : type of the elements
    array : names of members, and positions in arrays, on the way to the array
    item : those on the way from each of its items to the value
    """
    value = value_of(element) or _VALUES[element.name]
    value = value.replace("PRECISION", str(element.precision)).replace("SCALE", str(element.scale))
    parts = {"VALUE": value, "ARRAY": _at("record", array), "ITEM": _at("item", item)}
    body = re.sub("|".join(parts), lambda part: parts[part[0]], _BODY)  # members may have such names
    # The name is part of the query, which identifies stored state.
    own = json.dumps([element.text, list(array), list(item)])
    return java_function(
        "json", own, "Values of an array of JSON.", ["STRING"], f"ARRAY<{element.text}>", body, _PARSED + CLASS
    )


def _at(node: str, steps: Sequence[str | int]) -> str:
    for step in steps:
        node = f"at({node}, {json.dumps(step)})"
    return node
