"""Functions in Java, compiled when a job is built: Flink includes a compiler of Java for its generated code."""

from __future__ import annotations

from zipfile import ZipFile

from pyflink.java_gateway import get_gateway
from pyflink.table import StreamTableEnvironment

from crenel.jobs.local.stop import folder_until_exit

_JARS = "pipeline.jars"


def register(tables: StreamTableEnvironment, name: str, class_name: str, source: str) -> None:
    """Compile and register a function, and add its jar to those of the job; a registered one stays.

    Parameters
    ----------
    name : of the function in SQL
    class_name : its class, with the package
    source : of the class, in the part of Java that Janino compiles
    """
    if name in tables.list_user_defined_functions():
        return
    jvm = get_gateway().jvm
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.cook(source)
    jar = folder_until_exit("crenel-functions-") / f"{name}.jar"
    with ZipFile(jar, "w") as file:
        for compiled, content in dict(compiler.getBytecodes()).items():
            file.writestr(f"{compiled.replace('.', '/')}.class", bytes(content))
    tables.execute_sql(f"CREATE TEMPORARY SYSTEM FUNCTION {name} AS '{class_name}' USING JAR '{jar.as_uri()}'")
    settings = tables._get_j_env().getConfiguration()
    listed = [text for text in settings.getString(_JARS, "").split(";") if text]
    settings.setString(_JARS, ";".join([*listed, jar.as_uri()]))
