"""Whole numbers of JSON in computed columns of a source, such as an event time, without Flink's parser of JSON.

Flink evaluates a computed column of event time for each record, in the watermark and in the query, and each
``JSON_VALUE`` parses the whole record into objects. That takes longer than all other work of a job from topic to topic.
A function in Java takes the place of the expression where its form is known. It reads the record in one pass, and calls
Flink's own functions for records that it does not read exactly as they do: the results are the same.
"""

from __future__ import annotations

import re

from pyflink.table import StreamTableEnvironment

from crenel.jobs.pipeline.java_functions import register
from crenel.jobs.pipeline.packing import JavaFunction

_FUNCTION = "crenel_json_bigint"
_EXPRESSION = re.compile(
    r"\bTRY_CAST\(\s*JSON_VALUE\(\s*(?P<column>\w+|`[^`]+`)\s*,\s*'(?P<path>\$\.[A-Za-z_]\w*)'\s*\)\s+AS\s+BIGINT\s*\)",
    re.IGNORECASE | re.ASCII,
)
_CREATES = re.compile(r"\s*CREATE\s+TEMPORARY\s+TABLE\s+`?source`?\s*\(", re.IGNORECASE)
_CLASS = "crenel.JsonBigint"
_SOURCE = r"""
package crenel;

import java.nio.charset.StandardCharsets;
import org.apache.flink.core.memory.MemorySegment;
import org.apache.flink.table.api.DataTypes;
import org.apache.flink.table.api.JsonValueOnEmptyOrError;
import org.apache.flink.table.catalog.DataTypeFactory;
import org.apache.flink.table.data.StringData;
import org.apache.flink.table.data.binary.BinaryStringData;
import org.apache.flink.table.data.binary.BinaryStringDataUtil;
import org.apache.flink.table.functions.ScalarFunction;
import org.apache.flink.table.runtime.functions.SqlJsonUtils;
import org.apache.flink.table.types.AbstractDataType;
import org.apache.flink.table.types.DataType;
import org.apache.flink.table.types.inference.ArgumentTypeStrategy;
import org.apache.flink.table.types.inference.InputTypeStrategies;
import org.apache.flink.table.types.inference.TypeInference;
import org.apache.flink.table.types.inference.TypeStrategies;

/** TRY_CAST(JSON_VALUE(json, path) AS BIGINT) for a path of one member, as crenel.operators.encode.json_scan scans. */
public class JsonBigint extends ScalarFunction {
    private static final int VALUE = 0, VALUE_OR_END = 1, NAME = 2, NAME_OR_END = 3, NEXT = 4, DONE = 5;
    private static final int DIGITS = 18, DEPTH = 30, LONGEST = 100000;

    private transient StringData path;
    private transient byte[] name;
    private transient boolean found;
    private transient long value;

    public TypeInference getTypeInference(DataTypeFactory factory) {
        ArgumentTypeStrategy text = InputTypeStrategies.explicit(
            (DataType) DataTypes.STRING().bridgedTo(StringData.class));
        return TypeInference.newBuilder()
            .inputTypeStrategy(InputTypeStrategies.sequence(new ArgumentTypeStrategy[] {text, text}))
            .outputTypeStrategy(TypeStrategies.explicit((DataType) DataTypes.BIGINT()))
            .build();
    }

    public Long eval(StringData json, StringData path) {
        if (json == null) {
            return null;
        }
        if (path != this.path) {
            this.path = path;
            this.name = path.toString().substring(2).getBytes(StandardCharsets.UTF_8);
        }
        BinaryStringData text = (BinaryStringData) json;
        text.ensureMaterialized();
        MemorySegment[] segments = text.getSegments();
        int size = text.getSizeInBytes();
        if (segments.length == 1 && !segments[0].isOffHeap() && size <= LONGEST) {
            if (scan(segments[0].getArray(), text.getOffset(), text.getOffset() + size)) {
                return found ? Long.valueOf(value) : null;
            }
        }
        Object read = SqlJsonUtils.jsonValue(
            json.toString(), path.toString(),
            JsonValueOnEmptyOrError.NULL, null, JsonValueOnEmptyOrError.NULL, null);
        if (read == null) {
            return null;
        }
        try {
            return Long.valueOf(BinaryStringDataUtil.toLong(BinaryStringData.fromString(String.valueOf(read)).trim()));
        } catch (NumberFormatException error) {
            return null;
        }
    }

    /** Returns whether a record is plain; its value is then in the fields. */
    private boolean scan(byte[] data, int at, int end) {
        int depth = 0, expected = VALUE;
        long objects = 0;
        boolean wanted = false;
        found = false;
        while (true) {
            at = behindBlanks(data, at, end);
            if (at >= end) {
                return expected == DONE;
            }
            byte sign = data[at];
            if (expected == NEXT) {
                boolean isObject = ((objects >> depth) & 1) == 1;
                if (sign == ',') {
                    expected = isObject ? NAME : VALUE;
                } else if (sign == (isObject ? '}' : ']')) {
                    depth -= 1;
                    expected = depth > 0 ? NEXT : DONE;
                } else {
                    return false;
                }
                at += 1;
            } else if (expected == NAME || expected == NAME_OR_END) {
                if (sign == '"') {
                    int close = behindString(data, at + 1, end);
                    if (close < 0) {
                        return false;
                    }
                    for (int place = at + 1; place < close; place++) {
                        if (data[place] == '\\') {
                            return false;
                        }
                    }
                    if (depth == 1) {
                        wanted = isName(data, at + 1, close);
                    }
                    at = behindBlanks(data, close + 1, end);
                    if (at >= end || data[at] != ':') {
                        return false;
                    }
                    expected = VALUE;
                } else if (sign == '}' && expected == NAME_OR_END) {
                    depth -= 1;
                    expected = depth > 0 ? NEXT : DONE;
                } else {
                    return false;
                }
                at += 1;
            } else if (expected == DONE) {
                return false;
            } else {
                boolean isWanted = depth == 1 && wanted;
                if (sign == '{' || (sign == '[' && depth > 0)) {
                    if (isWanted || depth == DEPTH) {
                        return false;
                    }
                    depth += 1;
                    if (sign == '{') {
                        objects |= 1L << depth;
                        expected = NAME_OR_END;
                    } else {
                        objects &= ~(1L << depth);
                        expected = VALUE_OR_END;
                    }
                    at += 1;
                    continue;
                }
                if (sign == ']' && expected == VALUE_OR_END) {
                    depth -= 1;
                    expected = NEXT;
                    at += 1;
                    continue;
                }
                if (depth == 0) {
                    return false;
                }
                expected = NEXT;
                int first = at;
                if (sign == '"') {
                    first = at + 1;
                    int close = behindString(data, first, end);
                    if (close < 0) {
                        return false;
                    }
                    at = close + 1;
                    if (!isWanted) {
                        continue;
                    }
                    if (close == first || close - first > DIGITS || digits(data, first, close) != close) {
                        return false;
                    }
                    found = true;
                    value = number;
                } else if (sign == '-' || (sign >= '0' && sign <= '9')) {
                    first = sign == '-' ? at + 1 : at;
                    at = digits(data, first, end);
                    long whole = number;
                    int count = at - first;
                    if (count == 0 || (data[first] == '0' && count > 1)) {
                        return false;
                    }
                    boolean isWhole = true;
                    if (at < end && data[at] == '.') {
                        isWhole = false;
                        int behind = digits(data, at + 1, end);
                        if (behind == at + 1) {
                            return false;
                        }
                        count += behind - at - 1;
                        at = behind;
                    }
                    if ((at < end && (data[at] == 'e' || data[at] == 'E')) || count > DIGITS) {
                        return false;
                    }
                    if (!isWanted) {
                        continue;
                    }
                    if (!isWhole) {
                        return false;
                    }
                    found = true;
                    value = sign == '-' ? -whole : whole;
                } else {
                    at = behindWord(data, at, end);
                    if (at < 0) {
                        return false;
                    }
                    if (isWanted) {
                        found = false;
                    }
                }
            }
        }
    }

    private transient long number;

    private int digits(byte[] data, int at, int end) {
        long read = 0;
        while (at < end && data[at] >= '0' && data[at] <= '9') {
            read = read * 10 + (data[at] - '0');
            at += 1;
        }
        number = read;
        return at;
    }

    private boolean isName(byte[] data, int begin, int end) {
        if (end - begin != name.length) {
            return false;
        }
        for (int place = 0; place < name.length; place++) {
            if (data[begin + place] != name[place]) {
                return false;
            }
        }
        return true;
    }

    private static int behindBlanks(byte[] data, int at, int end) {
        while (at < end && (data[at] == ' ' || data[at] == '\n' || data[at] == '\r' || data[at] == '\t')) {
            at += 1;
        }
        return at;
    }

    /** Returns the position of the quote that ends a string, or -1 where another parser has to read it. */
    private static int behindString(byte[] data, int at, int end) {
        while (at < end) {
            byte sign = data[at];
            if (sign == '"') {
                return at;
            }
            if (sign >= 0 && sign < ' ') {
                return -1;
            }
            if (sign == '\\') {
                at += 1;
                if (at >= end || "\"\\/bfnrt".indexOf(data[at]) < 0) {
                    return -1;
                }
            }
            at += 1;
        }
        return -1;
    }

    private static int behindWord(byte[] data, int at, int end) {
        String word = data[at] == 't' ? "true" : data[at] == 'n' ? "null" : data[at] == 'f' ? "false" : null;
        if (word == null || at + word.length() > end) {
            return -1;
        }
        for (int place = 1; place < word.length(); place++) {
            if (data[at + place] != word.charAt(place)) {
                return -1;
            }
        }
        return at + word.length();
    }
}
"""


def use_fast_numbers(tables: StreamTableEnvironment, ddl: str) -> None:
    """Create the table of a statement again, with the function in place of the expressions that it can replace.

    ``ddl``: has been executed. A statement other than ``CREATE TEMPORARY TABLE source`` does not change.
    """
    replaced = with_fast_numbers(ddl)
    if replaced != ddl and _CREATES.match(ddl):
        register(tables, [JavaFunction(_FUNCTION, _CLASS, _SOURCE)])
        tables.execute_sql("DROP TEMPORARY TABLE source")
        tables.execute_sql(replaced)


def with_fast_numbers(statement: str) -> str:
    """Return a statement with the function in place of each ``TRY_CAST(JSON_VALUE(column, '$.member') AS BIGINT)``."""
    return _EXPRESSION.sub(rf"{_FUNCTION}(\g<column>, '\g<path>')", statement)
