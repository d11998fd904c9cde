"""Data of a program as Arrow batches, and the way back to the same kind."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import pyarrow as pa

from crenel.anonymity.model.errors import ConfigError
from crenel.anonymity.model.policy import ITEMS
from crenel.anonymity.model.values import is_list
from crenel.operators.encode.columns import field_at
from crenel.operators.encode.nested import flat_paths

ROWS = 32_768
"""Maximum number of rows of a batch."""


@dataclass(frozen=True)
class Frame:
    """Data to anonymize, read as batches.

    Attributes
    ----------
    kind : kind of the data, in which results are returned
    schema : names and types of the columns
    source : a table, or an iterator of batches
    dtypes : dtype of each column of a pandas DataFrame
    views : type of each column that is a view of text or bytes; it is read as plain text or bytes
    """

    kind: Literal["pyarrow", "pandas", "polars"]
    schema: pa.Schema
    source: pa.Table | Iterator[pa.RecordBatch]
    dtypes: Mapping[str, Any] = field(default_factory=dict)
    views: Mapping[str, pa.DataType] = field(default_factory=dict)

    @classmethod
    def of(cls, data: Any) -> Frame:
        """Read data of any supported kind.

        Raises
        ------
        TypeError
            The data is of no supported kind.
        ValueError
            Two columns have one name, or a DataFrame has an index that would be lost.
        """
        package = type(data).__module__.partition(".")[0]
        if package == "pandas":
            frame = cls._of_table("pandas", _from_pandas(data))
            return replace(frame, dtypes=dict(data.dtypes))
        if isinstance(data, pa.RecordBatch):
            data = pa.Table.from_batches([data])
        if isinstance(data, pa.Table):
            return cls._of_table("pyarrow", data)
        if hasattr(data, "scanner") and hasattr(data, "schema"):  # a dataset
            data = data.scanner().to_reader()
        if not isinstance(data, pa.RecordBatchReader):
            if not hasattr(data, "__arrow_c_stream__"):
                raise TypeError(
                    f"data: is a {type(data).__module__}.{type(data).__qualname__}; give a pyarrow Table, a pandas or "
                    "Polars DataFrame, or an object that exports an Arrow stream (__arrow_c_stream__)"
                )
            if package == "polars":
                return cls._of_table("polars", _from_polars(data))
            try:
                data = pa.RecordBatchReader.from_stream(data)
            except pa.ArrowInvalid:
                name = f"{type(data).__module__}.{type(data).__qualname__}"
                raise TypeError(f"data: is a {name}, whose Arrow stream has no named columns; give a table") from None
        _require_names(data.schema)
        return cls("pyarrow", _without_views(data.schema), iter(data), views=_views(data.schema))

    @classmethod
    def _of_table(cls, kind: Literal["pyarrow", "pandas", "polars"], table: pa.Table) -> Frame:
        _require_names(table.schema)
        return cls(kind, _without_views(table.schema), table, views=_views(table.schema))

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the data in batches of at most ``ROWS`` rows."""
        if isinstance(self.source, pa.Table):
            yield from _plain(self.source, self.schema).combine_chunks().to_batches(max_chunksize=ROWS)
            return
        for batch in self.source:
            yield from _plain(pa.Table.from_batches([batch]), self.schema).to_batches(ROWS)

    def flattened(self, roles: Collection[str]) -> Frame:
        """Return the data with the fields of nested columns as columns, as ``flat_schema`` names them."""
        schema = flat_schema(self.schema, roles)
        if schema == self.schema:
            return self
        paths = [(_first(self.schema, path), path) for path in _paths(self.schema, roles).values()]

        def flat() -> Iterator[pa.RecordBatch]:
            for batch in self.batches():
                columns = [field_at(batch.column(first), path) for first, path in paths]
                yield pa.RecordBatch.from_arrays(columns, schema=schema)

        return replace(self, schema=schema, source=flat())

    def back(self, table: pa.Table) -> Any:
        """Return a table in the kind of the data."""
        for name, view in self.views.items():
            place = table.schema.get_field_index(name)
            if place >= 0 and table.schema.field(place).type == _VIEWS[str(view)]:
                # Arrow 16 has no cast to views.
                column = pa.chunked_array([pa.array(table.column(place).to_pylist(), view)])
                table = table.set_column(place, name, column)
        if self.kind == "pandas":
            import pandas as pd

            return pd.DataFrame({name: self._series(name, table[name]) for name in table.column_names})
        if self.kind == "polars":
            import polars

            return polars.from_arrow(table)
        return table

    def _series(self, name: str, column: pa.ChunkedArray) -> Any:
        """Return a column of an output as pandas has it, with the dtype of the column of the data that it comes from.

        Whole numbers of which some are missing are no floats, which would change large ones.
        """
        import pandas as pd

        own = next((each for each in (name, *map(name.removesuffix, _ENDS)) if each in self.dtypes), None)
        of = column.type
        dtype = None
        if own is not None and of in (self.schema.field(own).type, self.views.get(own)):
            dtype = self.dtypes[own]
        if isinstance(dtype, pd.CategoricalDtype):
            return _ordered(column.to_pandas(), dtype)
        if isinstance(dtype, pd.ArrowDtype):
            return pd.Series(pd.array(column, dtype))
        if isinstance(dtype, pd.api.extensions.ExtensionDtype) and hasattr(dtype, "__from_arrow__"):
            return pd.Series(dtype.__from_arrow__(column))
        if dtype is not None and dtype.kind == "O" and not pa.types.is_nested(of):
            is_text = pa.types.is_string(of) or pa.types.is_large_string(of)
            return pd.Series(column.to_numpy() if is_text else column.to_pylist(), dtype=object)
        if pa.types.is_integer(of) and column.null_count:
            return column.to_pandas(types_mapper=_nullable)
        return column.to_pandas()


_ENDS = ("_min", "_max")
"""Suffixes of the ends of an interval, which have the type of their column."""


def _nullable(of: pa.DataType) -> Any:
    """Return the dtype of whole numbers, such as ``UInt8``, of which some may be missing."""
    import pandas as pd

    return pd.api.types.pandas_dtype(str(of).capitalize().replace("Ui", "UI"))


def _ordered(series: Any, dtype: Any) -> Any:
    """Return a series of categories with its categories in the order of a dtype that may have others."""
    own, known = series.cat.categories, dtype.categories
    return series.cat.reorder_categories([*known[known.isin(own)], *own[~own.isin(known)]])


def flat_schema(schema: pa.Schema, roles: Collection[str]) -> pa.Schema:
    """Return a schema with the fields of structs, and of lists of structs, as columns, where a role names one of them.

    Raises
    ------
    ConfigError
        Lists the problems of ``crenel.operators.encode.nested.flat_paths``.
    """
    found = [
        pa.field(name, field_at(pa.nulls(0, schema.field(_first(schema, path)).type), path).type)
        if path != (name,)
        else schema.field(name)
        for name, path in _paths(schema, roles).items()
    ]
    return schema if found == list(schema) else pa.schema(found)


def _paths(schema: pa.Schema, roles: Collection[str]) -> dict[str, tuple[str, ...]]:
    paths, problems = flat_paths({field.name: field.type for field in schema}, roles, _fields, _element)
    if problems:
        raise ConfigError("data", problems)
    return paths


def _first(schema: pa.Schema, path: tuple[str, ...]) -> str:
    """Return the column that a path begins at."""
    return path[0] if path[0] in schema.names else path[0].removesuffix(ITEMS)


def _fields(of: pa.DataType) -> Mapping[str, pa.DataType]:
    return {field.name: field.type for field in of} if pa.types.is_struct(of) else {}


def _element(of: pa.DataType) -> pa.DataType | None:
    return of.value_type if is_list(of) else None


def _from_pandas(data: Any) -> pa.Table:
    import pandas as pd

    if not isinstance(data, pd.DataFrame):
        raise TypeError(f"data: is a pandas {type(data).__name__}; give a DataFrame")
    if not data.columns.is_unique:
        raise ValueError(_twice(data.columns[data.columns.duplicated()][0]))
    if not all(isinstance(name, str) for name in data.columns):
        raise ValueError("data: has a column whose name is not text; rename it")
    if data.index.name is not None or isinstance(data.index, pd.MultiIndex):
        names = ", ".join(map(repr, data.index.names))
        raise ValueError(f"data: has the index {names}, which would be lost; make it a column by reset_index()")
    try:
        return pa.Table.from_pandas(data, preserve_index=False)
    except _UNREADABLE:  # whose message holds a value of a record
        raise TypeError(
            next(filter(None, map(_unreadable, map(data.get, data.columns))), "data: is unreadable")
        ) from None


_UNREADABLE = (pa.ArrowException, ArithmeticError, TypeError, ValueError)


def _unreadable(column: Any) -> str | None:
    """Return why Arrow cannot hold a Series, with the types of its values; None where it can."""
    try:
        pa.Table.from_pandas(column.to_frame(), preserve_index=False)
    except _UNREADABLE:
        types = sorted({type(value).__name__ for value in column[column.notna()]})[:_SHOWN]
        return (
            f"data: the column {column.name!r} is of {column.dtype} with values of {', '.join(types)}, which Arrow "
            "does not hold as one type; convert or remove it"
        )
    return None


_SHOWN = 5
"""Maximum number of types that an error names."""


_NOT_IN_ARROW = frozenset(("Object", "Int128", "UInt128"))
"""Polars types whose values Arrow does not hold."""


def _polars_types(of: Any) -> Iterator[str]:
    """Yield the names of a Polars type and of those within it."""
    yield getattr(of, "__name__", type(of).__name__)
    inner = [field.dtype for field in getattr(of, "fields", ())] + [getattr(of, "inner", None)]
    for each in inner:
        if each is not None:
            yield from _polars_types(each)


def _from_polars(data: Any) -> pa.Table:
    import polars

    if not isinstance(data, polars.DataFrame):
        raise TypeError(f"data: is a Polars {type(data).__name__}; give a DataFrame")
    for name, dtype in data.schema.items():
        for unfit in _NOT_IN_ARROW.intersection(_polars_types(dtype)):
            raise TypeError(f"data: the column {name!r} is of {unfit}, which Arrow does not have; cast or remove it")
    return data.to_arrow(compat_level=polars.CompatLevel.oldest())  # without views of text


def _require_names(schema: pa.Schema) -> None:
    seen: set[str] = set()
    for name in schema.names:
        if name in seen:
            raise ValueError(_twice(name))
        seen.add(name)


def _twice(name: str) -> str:
    return f"data: has two columns {name!r}; rename one"


_VIEWS = {"string_view": pa.large_string(), "binary_view": pa.large_binary()}


def _views(schema: pa.Schema) -> dict[str, pa.DataType]:
    return {field.name: field.type for field in schema if str(field.type) in _VIEWS}


def _without_views(schema: pa.Schema) -> pa.Schema:
    """Return the schema with plain text in the place of views, which Arrow cannot select rows of."""
    return pa.schema([pa.field(f.name, _VIEWS.get(str(f.type), f.type)) for f in schema])


def _plain(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return a table in the schema of ``_without_views``."""
    if table.schema == schema:
        return table
    columns = [
        # Arrow 16 has no cast of views.
        pa.array(column.to_pylist(), field.type) if str(column.type) in _VIEWS else column.cast(field.type)
        for column, field in zip(table.columns, schema, strict=True)
    ]
    return pa.table(columns, schema=schema)
