"""A stream for jobs with the algorithm and the promise of the tests, and their configuration."""

from __future__ import annotations

from collections.abc import Iterator

CONFIGURATION = """
extensions: [examples.own_algorithm, examples.own_privacy_model]
policy:
  subject: who
  quasi_identifiers:
    x: {{type: numeric, domain: [0, 100]}}
  sensitive: [illness]
  passthrough: [id]
privacy: {{k: 3, at_most: 0.6}}
algorithm: in_order
in_order: {{most: 20}}
seed: 1
source:
  ddl: |
    CREATE TEMPORARY TABLE source (id BIGINT, who STRING, x INT, illness STRING)
    WITH ('connector' = 'filesystem', 'path' = '{folder}/in.csv', 'format' = 'csv')
sinks:
  released: {{connector: filesystem, path: {folder}/released, format: csv}}
  suppressed: {{connector: filesystem, path: {folder}/suppressed, format: csv}}
  audit: {{connector: filesystem, path: {folder}/audit, format: csv}}
"""


def visits(count: int = 400) -> Iterator[str]:
    for i in range(count):
        yield f"{i},p{i * 7 % 90},{i * 37 % 101},{'abcab'[i * 3 % 5]}"
