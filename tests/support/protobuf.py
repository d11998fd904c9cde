"""Descriptor sets, as protoc writes them, and messages of them, in Python and for Flink."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory

from tests.support.artifacts import jars

_SHADED = "org.apache.flink.formats.protobuf.shaded"
_KINDS = (
    "double float int64 uint64 int32 fixed64 fixed32 bool string bytes uint32 sfixed32 sfixed64 sint32 sint64".split()
)


def field(name: str, number: int, kind: str, *, many: bool = False, **options: Any) -> dict[str, Any]:
    """Return a field of a message.

    Parameters
    ----------
    kind : a type of Protobuf, or ``.package.Message``; ``.package.Enum`` is marked by ``type="TYPE_ENUM"``
    many : whether it is repeated
    options : further attributes, as in descriptor.proto
    """
    own = {"type": f"TYPE_{kind.upper()}"} if kind in _KINDS else {"type": "TYPE_MESSAGE", "type_name": kind}
    label = "LABEL_REPEATED" if many else "LABEL_OPTIONAL"
    return {"name": name, "number": number, "label": label, **own, **options}


def descriptor_set(*files: dict[str, Any], own: bool = True, imports: Sequence[Any] = ()) -> bytes:
    """Return the descriptor set of files, as in descriptor.proto; options have names as ``[package.option]``.

    Parameters
    ----------
    own : whether it has descriptor.proto itself, as it does where a file imports that
    imports : descriptors of further files of Protobuf's own
    """
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(descriptor_pb2.DESCRIPTOR.serialized_pb)
    found = descriptor_pb2.FileDescriptorSet()
    if own:
        descriptor_pb2.DESCRIPTOR.CopyToProto(found.file.add())
    for known in imports:
        known.CopyToProto(found.file.add())
        pool.AddSerializedFile(known.serialized_pb)
    for each in files:
        made = message_factory.GetMessageClass(pool.FindMessageTypeByName("google.protobuf.FileDescriptorProto"))()
        json_format.ParseDict(each, made)
        content = made.SerializeToString()
        found.file.add().ParseFromString(content)
        pool.AddSerializedFile(content)
    return found.SerializeToString()


def message_class(content: bytes, name: str) -> Any:
    """Return the class of a message of a descriptor set."""
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(content).file:
        pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


def format_jar() -> Path:
    """Return the jar of Flink's Protobuf format."""
    (found,) = jars("protobuf").glob("flink-sql-protobuf-*.jar")
    return found


def classes_jar(folder: Path, content: bytes, file: str) -> Path:
    """Return a jar with the classes of a file of a descriptor set, compiled as docs/how-to/bad-records.md has it.

    Skips the test where javac is missing; in CI that is a failure.
    """
    javac = shutil.which("javac")
    if javac is None:
        if os.environ.get("CI"):
            pytest.fail("javac is missing, which compiles messages of Protobuf for their test")
        pytest.skip("javac is missing, which compiles messages of Protobuf for their test (apt install default-jdk)")
    (protoc,) = jars("protobuf").glob("protoc-*.exe")
    protoc.chmod(0o755)
    java, classes, jar = folder / "java", folder / "classes", folder / "messages.jar"
    java.mkdir()
    (folder / "messages.desc").write_bytes(content)
    subprocess.run([protoc, f"--descriptor_set_in={folder / 'messages.desc'}", f"--java_out={java}", file], check=True)
    sources = sorted(java.rglob("*.java"))
    for source in sources:
        text = source.read_text(encoding="utf-8")
        source.write_text(text.replace("com.google.protobuf", f"{_SHADED}.com.google.protobuf"), encoding="utf-8")
    compiling = ["-J-XX:TieredStopAtLevel=1", "-nowarn", "--release", "17", "-d", classes, "-cp", format_jar()]
    subprocess.run([javac, *compiling, *sources], check=True)
    with ZipFile(jar, "w") as made:
        for each in classes.rglob("*.class"):
            made.write(each, each.relative_to(classes))
    return jar
