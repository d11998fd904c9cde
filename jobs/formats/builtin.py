"""The formats of records that come with Crenel, in the order of the reference."""

from __future__ import annotations

from crenel.jobs.formats.avro_records import AvroRecords
from crenel.jobs.formats.csv_records import CsvRecords
from crenel.jobs.formats.json_records import JsonRecords
from crenel.jobs.formats.protobuf_records import ProtobufRecords
from crenel.jobs.formats.record_format import RecordFormat

FORMATS: tuple[type[RecordFormat], ...] = (JsonRecords, CsvRecords, AvroRecords, ProtobufRecords)
