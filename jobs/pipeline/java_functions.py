"""Functions in Java, compiled when a job is built: Flink includes a compiler of Java for its generated code."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from zipfile import ZipFile

import pyflink.version
from pyflink.java_gateway import get_gateway
from pyflink.table import StreamTableEnvironment
from pyflink.util.java_utils import add_jars_to_context_class_loader, get_field, load_java_class

from crenel.jobs.local.stop import folder_until_exit
from crenel.jobs.pipeline.packing import JavaFunction

_JARS = "pipeline.jars"


def register(tables: StreamTableEnvironment, functions: Iterable[JavaFunction]) -> None:
    """Compile and register functions, and add their jars to those of the job; registered ones stay.

    ``functions`` are in the part of Java that Janino compiles.
    """
    for function in functions:
        if function.name not in tables.list_user_defined_functions():
            _register(tables, function)


def instance(tables: StreamTableEnvironment, function: JavaFunction) -> Any:
    """Compile a function of a stream, add its jar to those of the job, and return an instance of its class."""
    jar = _jar(function)
    add_jars_to_context_class_loader([jar])
    _add(tables, jar)
    return load_java_class(function.class_name).newInstance()


def _register(tables: StreamTableEnvironment, function: JavaFunction) -> None:
    jar = _jar(function)
    tables.execute_sql(f"CREATE TEMPORARY SYSTEM FUNCTION {function.name} AS '{function.class_name}' USING JAR '{jar}'")
    _load(tables, jar)
    _add(tables, jar)  # not before: Flink would write a jar that it finds there in the form of YAML


def _jar(function: JavaFunction) -> str:
    """Return the URI of a new jar of a function."""
    jvm = get_gateway().jvm
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setTargetVersion(8)  # static methods of interfaces
    compiler.cook(function.source)
    jar = folder_until_exit("crenel-functions-") / f"{function.name}.jar"
    with ZipFile(jar, "w") as file:
        for compiled, content in dict(compiler.getBytecodes()).items():
            file.writestr(f"{compiled.replace('.', '/')}.class", bytes(content))
    return jar.as_uri()


def _add(tables: StreamTableEnvironment, jar: str) -> None:
    """Add a jar to those of the job."""
    settings = tables._get_j_env().getConfiguration()
    listed = [text for text in settings.getString(_JARS, "").split(";") if text]
    settings.setString(_JARS, ";".join([*listed, jar]))


def _load(tables: StreamTableEnvironment, jar: str) -> None:
    """Let this process find the classes of a jar where it compiles a job before it submits it, as Flink 1.20 does."""
    if not pyflink.version.__version__.startswith("1.20."):
        return
    add_jars_to_context_class_loader([jar])
    environment = tables._get_j_env()
    loader = get_gateway().jvm.java.lang.Thread.currentThread().getContextClassLoader()
    get_field(environment.getClass(), "userClassloader").set(environment, loader)
