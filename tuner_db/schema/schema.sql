-- The tuner's database, version 1 (PRAGMA user_version). This text is migration step 1 and is never
-- edited once released: a change is a further step (schema_2.sql, ...) that alters what this one
-- made. PostgreSQL's text is derived from it (tuner_db/schema/schema.h).
--
-- Measurements are append-only and are the truth. `candidates` carries one derived thing, the
-- pooled statistics of each trace, so that `best` reads a handful of rows instead of every sample;
-- they are written in the transaction that appends, and `db check` recomputes them.

CREATE TABLE workloads (
  id             TEXT PRIMARY KEY NOT NULL,  -- sha256 of canonical_text
  name           TEXT NOT NULL,
  canonical_text TEXT NOT NULL,
  source_words   TEXT NOT NULL,              -- as first asked for
  flops          REAL NOT NULL,
  bytes          REAL NOT NULL,
  shape          TEXT NOT NULL,              -- extents joined by commas, for nearest-shape look-ups
  family         TEXT NOT NULL               -- sha256 of the canonical text with extents blanked
) STRICT;
CREATE INDEX workloads_by_family ON workloads(family);

CREATE TABLE targets (
  id   TEXT PRIMARY KEY NOT NULL,            -- sha256 of text
  text TEXT NOT NULL                         -- JSON, as to_text(Target) prints it
) STRICT;

-- What measurements are comparable within.
CREATE TABLE keys (
  id        INTEGER PRIMARY KEY,
  workload  TEXT NOT NULL REFERENCES workloads(id),
  target    TEXT NOT NULL REFERENCES targets(id),
  backend   TEXT NOT NULL,
  threads   INTEGER NOT NULL,
  cache     TEXT NOT NULL,
  objective TEXT NOT NULL,
  UNIQUE (workload, target, backend, threads, cache, objective)
) STRICT;

-- One row a distinct trace of a key. The columns from `samples` on are derived from its
-- measurements.
CREATE TABLE candidates (
  id        INTEGER PRIMARY KEY,
  key       INTEGER NOT NULL REFERENCES keys(id),
  trace     TEXT NOT NULL,
  samples   INTEGER NOT NULL DEFAULT 0,      -- of all its OK measurements together
  median_us REAL NOT NULL DEFAULT 0,
  high_us   REAL NOT NULL DEFAULT 0,         -- upper end of the median's 95 % interval, or Inf
  eligible  INTEGER NOT NULL DEFAULT 0,      -- verified, measured, and never crashed or wrong
  UNIQUE (key, trace)
) STRICT;
CREATE INDEX candidates_by_samples ON candidates(key, samples DESC, median_us, id) WHERE eligible;
CREATE INDEX candidates_by_median ON candidates(key, median_us) WHERE eligible;

CREATE TABLE measurements (
  id            INTEGER PRIMARY KEY AUTOINCREMENT,  -- order of arrival; never used twice
  candidate     INTEGER NOT NULL REFERENCES candidates(id),
  kernel_hash   INTEGER NOT NULL,            -- 64 bits; signed because SQLite's integers are
  verdict       TEXT NOT NULL,               -- verdict_name()
  detail        TEXT NOT NULL,
  samples_us    BLOB NOT NULL,               -- little-endian IEEE doubles
  inner         INTEGER NOT NULL,
  time_us       REAL NOT NULL,
  ci_low_us     REAL NOT NULL,
  ci_high_us    REAL NOT NULL,
  verified      INTEGER NOT NULL,
  max_rel_error REAL NOT NULL,
  wall_s        REAL NOT NULL,
  build_s       REAL NOT NULL,
  seed          INTEGER NOT NULL,            -- 64 bits, as kernel_hash
  source        TEXT NOT NULL,
  environment   TEXT NOT NULL,               -- JSON
  unix_ms       INTEGER NOT NULL
) STRICT;
CREATE INDEX measurements_by_candidate ON measurements(candidate);

-- Who is tuning which key now. A row whose process is gone (another boot, no such pid, or the pid
-- started at another time) counts for nothing. No reference to keys: a claim precedes any result.
CREATE TABLE claims (
  workload  TEXT NOT NULL,
  target    TEXT NOT NULL,
  backend   TEXT NOT NULL,
  threads   INTEGER NOT NULL,
  cache     TEXT NOT NULL,
  objective TEXT NOT NULL,
  boot      TEXT NOT NULL,                   -- /proc/sys/kernel/random/boot_id
  pid       INTEGER NOT NULL,
  started   INTEGER NOT NULL,                -- field 22 of /proc/PID/stat, in ticks since boot
  PRIMARY KEY (workload, target, backend, threads, cache, objective)
) STRICT;
