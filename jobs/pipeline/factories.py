"""Checks for connectors, formats and messages that Flink lacks, because of a missing jar or a misspelled name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyflink.java_gateway import get_gateway
from pyflink.table import StreamTableEnvironment
from pyflink.util.java_utils import get_field_value, is_instance_of, load_java_class

from crenel.jobs.config.catalogs import IN_MEMORY
from crenel.jobs.config.explain import listed, suggestion

_FACTORIES = "org.apache.flink.table.factories"

_CONNECTORS = ("blackhole", "datagen", "filesystem", "print")
"""Connectors that come with Flink; asking Java for all connectors takes a tenth of a second or more."""

_FORMATS = ("csv", "json", "raw")
"""Formats that come with Flink."""

_INTERNAL = ("legacy-", "python-")
"""Name prefixes of connectors that are internal to Flink."""

_WITH_FORMATS = ("filesystem", "kafka", "upsert-kafka")
"""Connectors whose formats are Flink's; other connectors may use that option for formats of their own."""

_ARTIFACTS: Mapping[str, str] = {
    "kafka": "flink-sql-connector-kafka",
    "upsert-kafka": "flink-sql-connector-kafka",
    "jdbc": "flink-connector-jdbc-core, with those of flink-connector-jdbc-postgres and of the driver (or of another "
    "database)",
    "iceberg": "iceberg-flink-runtime",
    "paimon": "paimon-flink",
    "hive": "flink-sql-connector-hive",
    "avro": "flink-sql-avro",
    "avro-confluent": "flink-sql-avro-confluent-registry",
    "orc": "flink-sql-orc",
    "parquet": "flink-sql-parquet",
    "protobuf": "flink-sql-protobuf",
}
"""Maven artifacts of connectors and formats, without versions."""

_ADD = "flink.pipeline.jars (docs/how-to/deploy.md)"

_PROTOBUF = "com.google.protobuf"
_SHADED = f"org.apache.flink.formats.protobuf.shaded.{_PROTOBUF}"
"""Packages of Protobuf: of the user, and in the jar flink-sql-protobuf."""

_MESSAGES = "(docs/how-to/bad-records.md#protobuf)"

HADOOP = (
    "Flink has no Hadoop client, which the catalog needs. Paimon finds it where flink.pipeline.jars names the files of "
    "hadoop-client-api and hadoop-client-runtime; for Iceberg, list them in the environment variable HADOOP_CLASSPATH "
    "of every Flink process and of the client (docs/how-to/lakehouse.md)"
)
"""Remedy for a catalog without the classes of Hadoop."""

HADOOP_FOR_PARQUET = (
    "the format needs classes of Hadoop, which its jar does not have; name the files of hadoop-client-api and "
    f"hadoop-client-runtime too in {_ADD}"
)
"""Remedy for files of Parquet without the classes of Hadoop."""


def find_missing_factories(tables: StreamTableEnvironment, named: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """Yield a message for each connector, format and class of a message that Flink does not find.

    Yields nothing where Flink cannot list what it has.

    Parameters
    ----------
    named : options of tables, by the field that contains them, such as ``sinks.audit`` or ``source.ddl``
    """
    found: dict[str, set[str]] | None = None
    for field, options in named.items():
        for option, kind, bundled in _factories(options):
            if options[option] in bundled:
                continue
            if (kind, options[option]) == ("format", "parquet") and _lacks_hadoop(tables):
                yield f"{_place(field, option)} {HADOOP_FOR_PARQUET}"
                continue
            try:
                found = found or _find_factories(tables)
            except Py4JError:
                return
            if options[option] not in found[kind]:
                yield f"{_place(field, option)} {_explain(kind, options[option], found[kind])}"
            elif (kind, options[option]) == ("format", "protobuf"):
                named_by = f"{option.removesuffix('format')}protobuf.message-class-name"
                if named_by in options and (problem := _unfit_message(tables, options[named_by])):
                    yield f"{_place(field, named_by)} {problem}"


def _lacks_hadoop(tables: StreamTableEnvironment) -> bool:
    """Return whether the jar of Parquet is there without Hadoop; the factories cannot even be listed then."""
    loader = _loader(tables)
    parquet, hadoop = (
        loader.getResource(f"{name}.class")
        for name in (
            "org/apache/flink/formats/parquet/ParquetFileFormatFactory",
            "org/apache/hadoop/conf/Configuration",
        )
    )
    return parquet is not None and hadoop is None


def find_missing_catalogs(tables: StreamTableEnvironment, catalogs: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """Yield a message for each catalog, of these options by name, whose type Flink does not find; as above."""
    try:
        found = _find_factories(tables)["catalog"] - {IN_MEMORY} if catalogs else set()
    except Py4JError:
        return
    for name, options in catalogs.items():
        if options["type"] not in found:
            yield f"catalogs.{name}.type: {_explain('catalog', options['type'], found)}"


def _place(field: str, option: str) -> str:
    return f"{field}: {option!r}:" if field.endswith(".ddl") else f"{field}.{option}:"


def _unfit_message(tables: StreamTableEnvironment, name: str) -> str | None:
    """Return why Flink's format cannot use a class as a message; None where it can."""
    loader = _loader(tables)
    try:
        message = loader.loadClass(name)
    except Py4JJavaError as error:
        if "ClassNotFoundException" in str(error.java_exception):
            return (
                f"no jar of the job has the class {name}; name the jar of the compiled message in flink.pipeline.jars "
                f"{_MESSAGES}"
            )
        message = None  # it lacks its superclass
    for package in (_SHADED, _PROTOBUF):
        try:
            known = loader.loadClass(f"{package}.Message")
        except Py4JJavaError:
            continue
        if message is None or not known.isAssignableFrom(message):
            return (
                f"the class {name} is of another copy of Protobuf than Flink's format, which has it as {package}; "
                f"rename {_PROTOBUF} so in the generated Java, and compile it against the jar of the format {_MESSAGES}"
            )
        return None
    return None


def _factories(options: Mapping[str, str]) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Yield each option that names a factory, the kind of factory, and the names that come with Flink."""
    if "connector" in options:
        yield "connector", "connector", _CONNECTORS
    if options.get("connector") in _WITH_FORMATS:
        for option in ("format", "key.format", "value.format"):
            if option in options:
                yield option, "format", _FORMATS


def _explain(kind: str, name: str, found: set[str]) -> str:
    if name in _ARTIFACTS:
        return f"Flink has no {kind} {name!r} without its jar; name the file of {_ARTIFACTS[name]} in {_ADD}"
    similar = suggestion(name, sorted({*found, *_ARTIFACTS}))
    choose = f"choose {listed(sorted(found))}, or " if found else ""
    return f"Flink has no {kind} {name!r}{similar}; {choose}name the jar of another in {_ADD}"


def _loader(tables: StreamTableEnvironment) -> Any:
    """Return the loader of the classes in all jars of a job."""
    return get_field_value(tables._j_tenv, "resourceManager").getUserClassLoader()


def _find_factories(tables: StreamTableEnvironment) -> dict[str, set[str]]:
    """Return the names of all catalogs, connectors and formats that are on the classpath of a job."""
    loader = _loader(tables)
    services = get_gateway().jvm.java.util.ServiceLoader.load(load_java_class(f"{_FACTORIES}.Factory"), loader)
    kinds = {
        "CatalogFactory": "catalog",
        "DynamicTableFactory": "connector",
        "DecodingFormatFactory": "format",
        "EncodingFormatFactory": "format",
    }
    found: dict[str, set[str]] = {"catalog": set(), "connector": set(), "format": set()}
    each = services.iterator()
    while each.hasNext():
        factory = each.next()
        for name, kind in kinds.items():
            if is_instance_of(factory, load_java_class(f"{_FACTORIES}.{name}")):
                found[kind].add(str(factory.factoryIdentifier()))
    found["connector"] = {name for name in found["connector"] if not name.startswith(_INTERNAL)}
    return found
