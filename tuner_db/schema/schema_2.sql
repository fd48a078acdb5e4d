-- Migration step 2: what the service keeps besides measurements. All of it is durable, and all that
-- belongs together changes in one transaction: a result with its measurements, its job's end, its
-- study's counters and its event. Times are milliseconds of the service's clock
-- (src/serve/rows/clock.h).
--
-- States are the lower-case names of the enums in proto/loopwright/v1 without their prefix.

CREATE TABLE studies (
  id          TEXT PRIMARY KEY NOT NULL,     -- 26 characters, sorted by the time it was made
  client      TEXT NOT NULL,
  spec        BLOB NOT NULL,                 -- StudySpec
  state       TEXT NOT NULL,                 -- queued | running | succeeded | failed | cancelled
  priority    INTEGER NOT NULL,
  target      TEXT NOT NULL,                 -- id of the target; '' until a device was found
  device_target TEXT NOT NULL,               -- of the devices that may measure: has all it needs
  error       TEXT NOT NULL,
  trials      INTEGER NOT NULL,              -- so far; derived from its workloads'
  failed      INTEGER NOT NULL,
  created_ms  INTEGER NOT NULL,
  updated_ms  INTEGER NOT NULL,
  ended_ms    INTEGER NOT NULL,              -- 0: not yet
  owner       TEXT NOT NULL,                 -- the daemon that searches for it, '' for none
  owner_epoch INTEGER NOT NULL,
  owner_until INTEGER NOT NULL
) STRICT;
CREATE INDEX studies_by_state ON studies(state, id);
CREATE INDEX studies_by_client ON studies(client, state);

CREATE TABLE study_workloads (
  study     TEXT NOT NULL REFERENCES studies(id),
  position  INTEGER NOT NULL,
  name      TEXT NOT NULL,
  workload  TEXT NOT NULL,                   -- id; its row is in `workloads`
  backend   TEXT NOT NULL,                   -- with the study's target: the key; '' until it is known
  threads   INTEGER NOT NULL,
  cache     TEXT NOT NULL,
  weight    REAL NOT NULL,
  trials    INTEGER NOT NULL,
  failed    INTEGER NOT NULL,
  best_us   REAL NOT NULL,                   -- 0: none yet; never rises
  zero_us   REAL NOT NULL,
  busy_s    REAL NOT NULL,                   -- of devices, on it
  done      INTEGER NOT NULL,
  note      TEXT NOT NULL,
  PRIMARY KEY (study, position)
) STRICT;

CREATE TABLE jobs (
  id          INTEGER PRIMARY KEY AUTOINCREMENT,
  study       TEXT NOT NULL,
  position    INTEGER NOT NULL,              -- of the workload within the study
  client      TEXT NOT NULL,
  target      TEXT NOT NULL,                 -- of the devices that may take it
  state       TEXT NOT NULL,                 -- queued | leased | done | dead | cancelled
  priority    INTEGER NOT NULL,
  run_after   INTEGER NOT NULL,
  attempt     INTEGER NOT NULL,              -- counted when claimed
  epoch       INTEGER NOT NULL,              -- of the latest lease: the fence
  device      TEXT NOT NULL,                 -- of the lease
  agent       TEXT NOT NULL,
  session     TEXT NOT NULL,
  lease_until INTEGER NOT NULL,
  leased_ms   INTEGER NOT NULL DEFAULT 0,    -- when the latest lease began; 0: never
  created_ms  INTEGER NOT NULL,
  ended_ms    INTEGER NOT NULL,
  candidates  INTEGER NOT NULL,
  payload     BLOB NOT NULL,                 -- Job, without what belongs to a lease
  sources     TEXT NOT NULL,                 -- of each candidate, comma-separated: draft, evolve, ...
  lost_on     TEXT NOT NULL,                 -- agents that disappeared with it, comma-separated
  digest      TEXT NOT NULL,                 -- of the accepted result
  detail      TEXT NOT NULL
) STRICT;
CREATE INDEX jobs_queued ON jobs(target, client, priority DESC, id) WHERE state = 'queued';
CREATE INDEX jobs_leased ON jobs(lease_until) WHERE state = 'leased';
CREATE INDEX jobs_by_device ON jobs(device) WHERE state = 'leased';
CREATE INDEX jobs_by_study ON jobs(study, state);
CREATE INDEX jobs_dead ON jobs(id) WHERE state = 'dead';

-- Results of leases that were lost: kept for analysis, never learned from.
CREATE TABLE orphans (
  id          INTEGER PRIMARY KEY AUTOINCREMENT,
  job         INTEGER NOT NULL,
  epoch       INTEGER NOT NULL,
  agent       TEXT NOT NULL,
  received_ms INTEGER NOT NULL,
  result      BLOB NOT NULL                  -- JobResult
) STRICT;

CREATE TABLE agents (
  id        TEXT PRIMARY KEY NOT NULL,
  sessions  TEXT NOT NULL,                   -- the current one, then earlier ones, comma-separated
  version   TEXT NOT NULL,
  labels    TEXT NOT NULL,                   -- JSON
  peer      TEXT NOT NULL,
  seen_ms   INTEGER NOT NULL
) STRICT;

CREATE TABLE devices (
  id          TEXT PRIMARY KEY NOT NULL,
  agent       TEXT NOT NULL REFERENCES agents(id),
  description BLOB NOT NULL,                 -- Device
  target      TEXT NOT NULL,
  admission   TEXT NOT NULL,                 -- open | draining | quarantined
  reason      TEXT NOT NULL,
  evidence    TEXT NOT NULL,                 -- JSON
  health      TEXT NOT NULL,                 -- ok | throttled | unhealthy
  failures    INTEGER NOT NULL,              -- in a row, through the device
  jobs_done   INTEGER NOT NULL,
  jobs_failed INTEGER NOT NULL,
  seen_ms     INTEGER NOT NULL
) STRICT;
CREATE INDEX devices_by_target ON devices(target);
CREATE INDEX devices_by_agent ON devices(agent);

-- Answers to calls that changed something, for repetitions of the call.
CREATE TABLE requests (
  actor      TEXT NOT NULL,
  id         TEXT NOT NULL,
  method     TEXT NOT NULL,
  hash       TEXT NOT NULL,                  -- of the request
  response   BLOB NOT NULL,
  created_ms INTEGER NOT NULL,
  PRIMARY KEY (actor, id)
) STRICT;
CREATE INDEX requests_by_time ON requests(created_ms);

CREATE TABLE events (
  study    TEXT NOT NULL REFERENCES studies(id),
  sequence INTEGER NOT NULL,                 -- from 1, without gaps
  event    BLOB NOT NULL,                    -- StudyEvent
  PRIMARY KEY (study, sequence)
) STRICT;

CREATE TABLE audit (
  id      INTEGER PRIMARY KEY AUTOINCREMENT,
  time_ms INTEGER NOT NULL,
  actor   TEXT NOT NULL,
  peer    TEXT NOT NULL,
  method  TEXT NOT NULL,
  subject TEXT NOT NULL,
  outcome TEXT NOT NULL
) STRICT;

-- Traces that are not given out for their key any more: a replay failed, a kernel was wrong. Their
-- measurements stay; their candidates' `eligible` is 0 while the row is here. By key and not by a
-- reference to it, so that what is pruned and imported again stays withdrawn.
CREATE TABLE withdrawn (
  digest    TEXT PRIMARY KEY NOT NULL,       -- record_digest(): sha256 of key and trace
  workload  TEXT NOT NULL,
  target    TEXT NOT NULL,
  backend   TEXT NOT NULL,
  threads   INTEGER NOT NULL,
  cache     TEXT NOT NULL,
  objective TEXT NOT NULL,
  trace     TEXT NOT NULL,
  reason    TEXT NOT NULL,
  evidence  TEXT NOT NULL,
  actor     TEXT NOT NULL,                   -- who withdrew it
  time_ms   INTEGER NOT NULL
) STRICT;
CREATE INDEX withdrawn_by_workload ON withdrawn(workload);

-- One row: the latest time that was given out, so that the clock never goes back over a restart.
CREATE TABLE clock (
  id      INTEGER PRIMARY KEY,
  time_ms INTEGER NOT NULL
) STRICT;
