-- Migration step 6: who measured what and whether it counts, what changed since a reader looked, which
-- code generator a job is for, and why a study waits.

-- A measurement counts (is pooled, may lead, may disqualify its trace) when a device of this service, or
-- this machine, made it or an admin vouched for it, and nobody annulled it. Others are kept as hints of
-- what to measure.
ALTER TABLE measurements ADD COLUMN counts INTEGER NOT NULL DEFAULT 1;
ALTER TABLE measurements ADD COLUMN actor TEXT NOT NULL DEFAULT '';     -- who gave it: agent/NAME,
                                                                         -- client/NAME; '': this machine
ALTER TABLE measurements ADD COLUMN device TEXT NOT NULL DEFAULT '';    -- that ran it, where known
ALTER TABLE measurements ADD COLUMN annulled TEXT NOT NULL DEFAULT '';  -- JSON: actor, reason, time_ms
-- Of all that is measured, so that what is imported twice is found without reading its key; '': older.
ALTER TABLE measurements ADD COLUMN digest TEXT NOT NULL DEFAULT '';
CREATE INDEX measurements_by_digest ON measurements(candidate, digest) WHERE digest <> '';

-- Moves with whatever can change what is given out for the key: other daemons look for it.
ALTER TABLE keys ADD COLUMN revision INTEGER NOT NULL DEFAULT 0;
ALTER TABLE keys ADD COLUMN changed_ms INTEGER NOT NULL DEFAULT 0;      -- of the database's clock
CREATE INDEX keys_by_change ON keys(changed_ms);

-- Of the devices that may take it: results belong to the code generator that made the kernels. '': an
-- older daemon's job, until a daemon of this version has seen it (adopt_old_jobs()).
ALTER TABLE jobs ADD COLUMN backend TEXT NOT NULL DEFAULT '';
DROP INDEX jobs_queued;
CREATE INDEX jobs_queued ON jobs(target, backend, client, priority DESC, id) WHERE state = 'queued';
CREATE INDEX jobs_old ON jobs(id) WHERE state = 'queued' AND backend = '';

-- Why nothing is measured for it now ('': it is), and since when.
ALTER TABLE studies ADD COLUMN waiting TEXT NOT NULL DEFAULT '';
ALTER TABLE studies ADD COLUMN waiting_ms INTEGER NOT NULL DEFAULT 0;   -- 0: it does not
-- Where it is to run ('': to be read from the spec), on how many threads, until when it may wait (0: for
-- ever), and since when devices have worked for it.
ALTER TABLE studies ADD COLUMN asked TEXT NOT NULL DEFAULT '';
ALTER TABLE studies ADD COLUMN threads INTEGER NOT NULL DEFAULT 0;
ALTER TABLE studies ADD COLUMN wait_until INTEGER NOT NULL DEFAULT 0;
ALTER TABLE studies ADD COLUMN started_ms INTEGER NOT NULL DEFAULT 0;   -- 0: not yet
CREATE INDEX studies_waiting ON studies(state, client, asked, threads, waiting, priority DESC, id);
CREATE INDEX studies_by_wait ON studies(state, wait_until);
-- Trials of the key that others had measured when the study began; the study's budget includes them.
ALTER TABLE study_workloads ADD COLUMN known INTEGER NOT NULL DEFAULT 0;
-- What look-ups gave out for it when it was done: the pooled time; best_us is the luckiest. 0: neither.
ALTER TABLE study_workloads ADD COLUMN given_us REAL NOT NULL DEFAULT 0;
-- 1: its best was found to be none (a withdrawal, an annulment), so that it is worse than its events said.
ALTER TABLE study_workloads ADD COLUMN corrected INTEGER NOT NULL DEFAULT 0;
-- Its jobs that were given up in a row, without a result between them, and what measuring it takes of a
-- device's memory: bytes, 0: not known. A workload that no device can measure closes.
ALTER TABLE study_workloads ADD COLUMN dead_jobs INTEGER NOT NULL DEFAULT 0;
ALTER TABLE study_workloads ADD COLUMN memory REAL NOT NULL DEFAULT 0;
ALTER TABLE devices ADD COLUMN memory INTEGER NOT NULL DEFAULT 0;       -- 0: not known
CREATE INDEX devices_by_memory ON devices(memory);

-- Who made it, with the role: client/ci. '': older; its client's name alone says.
ALTER TABLE studies ADD COLUMN actor TEXT NOT NULL DEFAULT '';

-- Refused calls of one caller and method within a minute are one line.
ALTER TABLE audit ADD COLUMN count INTEGER NOT NULL DEFAULT 1;

-- How often in a row the agent lost what it was given, and until when it gets no more for that.
ALTER TABLE agents ADD COLUMN losses INTEGER NOT NULL DEFAULT 0;
ALTER TABLE agents ADD COLUMN rest_until INTEGER NOT NULL DEFAULT 0;

-- At most one row, for a moment: whether the database takes writes again (group_commit.h).
CREATE TABLE probes (
  id    INTEGER PRIMARY KEY,
  bytes BLOB NOT NULL
) STRICT;
