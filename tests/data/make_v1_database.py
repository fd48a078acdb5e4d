#!/usr/bin/env python3
"""Makes tests/data/v1.sqlite: a database as schema version 1 left it, from rows of a present one.

    git show 0889c90:tuner_db/schema.sql > v1.sql    # the schema's first release
    loopwright tune matmul M=16 N=16 K=16 --threads 1 --trials 6 --db new.db
    tests/data/make_v1_database.py v1.sql new.db tests/data/v1.sqlite

The file is never made anew: it stands for what users have.
"""
import os
import sqlite3
import sys

schema, source, target = sys.argv[1:]
if os.path.exists(target):
    sys.exit(f"{target} is there already")
out = sqlite3.connect(target)
out.execute("PRAGMA page_size = 1024")
out.executescript(open(schema).read())
tables = [row[0] for row in out.execute(
    "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'")]
rows = sqlite3.connect(source)
application = rows.execute("PRAGMA application_id").fetchone()[0]
first = ["workloads", "targets", "keys", "candidates", "measurements"]
for table in first + [t for t in tables if t not in first]:
    columns = [row[1] for row in out.execute(f"PRAGMA table_info({table})")]
    names = ", ".join(f'"{c}"' for c in columns)
    marks = ", ".join("?" * len(columns))
    out.executemany(f"INSERT INTO {table} ({names}) VALUES ({marks})",
                    rows.execute(f"SELECT {names} FROM {table}").fetchall())
out.commit()
out.execute(f"PRAGMA application_id = {application}")
out.execute("PRAGMA user_version = 1")
out.execute("VACUUM")
out.execute("PRAGMA journal_mode = WAL")
out.execute("PRAGMA wal_checkpoint(TRUNCATE)")
out.close()
