"""Visits of invented people to invented clinics, without an end: ``python generate.py RATE``, in rows a second.

They go into the topic ``visits`` of ``KAFKA_BOOTSTRAP_SERVERS``, as JSON; or to wherever the options of a Flink table
lead that a second argument may name.
"""

from __future__ import annotations

import os
import sys

from pyflink.table import EnvironmentSettings, TableEnvironment

NUMBERS = """
CREATE TEMPORARY TABLE numbers (
  person INT,
  visit INT,
  fault INT
) WITH (
  'connector' = 'datagen',
  'rows-per-second' = '{rate}',
  'fields.person.min' = '1', 'fields.person.max' = '20000',
  'fields.visit.min' = '0', 'fields.visit.max' = '999',
  'fields.fault.min' = '0', 'fields.fault.max' = '999'
)
"""

VISITS = """
CREATE TEMPORARY TABLE visits (
  person STRING, name STRING, age STRING, area STRING, education STRING, salary STRING, diagnosis STRING, clinic STRING,
  visited_ms BIGINT
) WITH (
  {where}
)
"""

# The values of a person follow from the number, so they stay the same at each return. A few rows in a thousand have no
# age, or an unknown area.
INSERT = """
INSERT INTO visits
SELECT
  'p' || LPAD(CAST(person AS STRING), 6, '0'),
  ELT(1 + MOD(person, 7), 'Ada', 'Bram', 'Cleo', 'Dara', 'Enno', 'Faye', 'Gil')
    || ' ' || ELT(1 + MOD(person / 7, 5), 'Ashdown', 'Birk', 'Crane', 'Dell', 'Eastley'),
  IF(fault = 0, CAST(NULL AS STRING), CAST(18 + MOD(person * 37, 70) AS STRING)),
  IF(fault = 1, 'ZZ9',
    ELT(1 + MOD(person * 13, 12), 'AL', 'BR', 'CO', 'DU', 'EL', 'FE', 'GA', 'HA', 'IN', 'JE', 'KI', 'LO')
    || CAST(1 + MOD(person / 12, 5) AS STRING)),
  ELT(1 + MOD(person * 7, 9), 'no certificate', 'basic school', 'secondary school', 'apprenticeship',
    'trade certificate', 'master craftsman', 'bachelor', 'master', 'doctorate'),
  CAST(19000 + 100 * MOD(person * 17, 500) AS STRING),
  CASE WHEN visit < 400 THEN 'check-up' WHEN visit < 650 THEN 'cold' WHEN visit < 780 THEN 'back pain'
    WHEN visit < 860 THEN 'allergy' WHEN visit < 930 THEN 'hypertension' WHEN visit < 970 THEN 'diabetes'
    ELSE 'depression' END,
  'clinic ' || CAST(1 + MOD(person / 60, 8) AS STRING),
  1000 * UNIX_TIMESTAMP()
FROM numbers
"""

KAFKA = """'connector' = 'kafka', 'topic' = 'visits', 'properties.bootstrap.servers' = '{servers}', 'format' = 'json'"""


def main() -> None:
    """Write until stopped."""
    rate, *where = sys.argv[1:]
    tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    tables.execute_sql(NUMBERS.format(rate=int(rate)))
    tables.execute_sql(
        VISITS.format(where=where[0] if where else KAFKA.format(servers=os.environ["KAFKA_BOOTSTRAP_SERVERS"]))
    )
    tables.execute_sql(INSERT).wait()


if __name__ == "__main__":
    main()
