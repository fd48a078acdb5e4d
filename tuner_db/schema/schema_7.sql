-- Migration step 7: what several parts of the service came to need, each in a block of its own.

-- Studies that are asked for again: sha256 of the spec, by which an interrupted client finds its
-- own. '': older.
ALTER TABLE studies ADD COLUMN spec_digest TEXT NOT NULL DEFAULT '';

-- Withdrawals by kernel: another trace of the key that gives the same kernel is out with it.
-- Of the trace's latest measurement that counts and knows it; 0: none does.
ALTER TABLE candidates ADD COLUMN kernel_hash INTEGER NOT NULL DEFAULT 0;
ALTER TABLE withdrawn ADD COLUMN kernel_hash INTEGER NOT NULL DEFAULT 0;  -- 0: by its trace alone
CREATE INDEX candidates_by_kernel ON candidates(key, kernel_hash) WHERE kernel_hash <> 0;
-- At most one row: moves with whatever is withdrawn or restored.
CREATE TABLE withdrawn_revision (
  id       INTEGER PRIMARY KEY,
  revision INTEGER NOT NULL
) STRICT;
UPDATE candidates SET kernel_hash = coalesce(
  (SELECT m.kernel_hash FROM measurements m WHERE m.candidate = candidates.id AND m.counts <> 0
   AND m.annulled = '' AND m.kernel_hash <> 0 ORDER BY m.id DESC LIMIT 1), 0);
UPDATE withdrawn SET kernel_hash = coalesce(
  (SELECT c.kernel_hash FROM keys k JOIN candidates c ON c.key = k.id
   WHERE k.workload = withdrawn.workload AND k.target = withdrawn.target
   AND k.backend = withdrawn.backend AND k.threads = withdrawn.threads
   AND k.cache = withdrawn.cache AND k.objective = withdrawn.objective
   AND c.trace = withdrawn.trace), 0);
UPDATE candidates SET eligible = 0 WHERE kernel_hash <> 0 AND EXISTS (
  SELECT 1 FROM keys k JOIN withdrawn w ON w.workload = k.workload AND w.target = k.target
  AND w.backend = k.backend AND w.threads = k.threads AND w.cache = k.cache
  AND w.objective = k.objective WHERE k.id = candidates.key
  AND w.kernel_hash = candidates.kernel_hash);

-- Who may come in.
-- Agents' sessions are counted: one that says a smaller number than the latest has been replaced,
-- however many came since.
ALTER TABLE agents ADD COLUMN session_number INTEGER NOT NULL DEFAULT 0;
-- Which agents an admin has let in with which target, where new devices wait for that.
CREATE TABLE admitted (
  agent   TEXT NOT NULL,
  target  TEXT NOT NULL,                   -- the device's, cores and all
  time_ms INTEGER NOT NULL,
  PRIMARY KEY (agent, target)
) STRICT;

-- When it left in order (src/serve/rows/online.h); 0: it is there, or fell silent.
ALTER TABLE agents ADD COLUMN left_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE devices ADD COLUMN left_ms INTEGER NOT NULL DEFAULT 0;
-- Who is there, and what of a target there is, found without a look at devices that are long gone.
CREATE INDEX devices_by_seen ON devices(seen_ms);
DROP INDEX devices_by_target;
CREATE INDEX devices_by_target ON devices(target, seen_ms, memory);

-- Who held the job at its latest epochs, "3:board-7,4:board-2": whose late results are kept.
ALTER TABLE jobs ADD COLUMN holders TEXT NOT NULL DEFAULT '';
CREATE INDEX orphans_by_job ON orphans(job, epoch);
CREATE INDEX orphans_by_agent ON orphans(agent, id);

-- A study that is deleted has the state 'deleted' until its rows are gone
-- (src/serve/rows/deletion.h); its events go from the oldest on.
ALTER TABLE studies ADD COLUMN first_event INTEGER NOT NULL DEFAULT 1;  -- that is kept
-- What of an ended study retention has yet to forget (src/serve/rows/retention.h).
ALTER TABLE studies ADD COLUMN keeps_payloads INTEGER NOT NULL DEFAULT 1;
ALTER TABLE studies ADD COLUMN keeps_events INTEGER NOT NULL DEFAULT 1;
CREATE INDEX studies_by_end ON studies(ended_ms) WHERE ended_ms > 0;
CREATE INDEX studies_with_payloads ON studies(ended_ms) WHERE ended_ms > 0 AND keeps_payloads <> 0;
CREATE INDEX studies_with_events ON studies(ended_ms) WHERE ended_ms > 0 AND keeps_events <> 0;
CREATE INDEX jobs_with_payload ON jobs(study) WHERE ended_ms > 0 AND length(payload) > 0;
CREATE INDEX audit_by_time ON audit(time_ms);
-- A workload goes with its last study.
CREATE INDEX study_workloads_by_workload ON study_workloads(workload);

-- How much each client, "client/ci", has the service keep (tuner_db/tables/usage.h).
CREATE TABLE client_usage (
  client      TEXT PRIMARY KEY NOT NULL,
  studies     INTEGER NOT NULL,
  spec_bytes  INTEGER NOT NULL,
  unconfirmed INTEGER NOT NULL               -- measurements
) STRICT;
INSERT INTO client_usage (client, studies, spec_bytes, unconfirmed)
  SELECT who, sum(study), sum(bytes), sum(measurement) FROM (
    SELECT CASE WHEN actor = '' THEN 'client/' || client ELSE actor END AS who, 1 AS study,
      length(spec) AS bytes, 0 AS measurement FROM studies
    UNION ALL SELECT actor, 0, 0, 1 FROM measurements WHERE counts = 0) AS uses GROUP BY who;

-- What trust rests on.
-- One spelling of the workload in the language: traces name its tensors and axes. '': an older row, until
-- a study or a put gives one.
ALTER TABLE workloads ADD COLUMN program TEXT NOT NULL DEFAULT '';
-- No time of it is shorter, whatever is reported: what its target could do at most. 0: not known.
ALTER TABLE study_workloads ADD COLUMN least_us REAL NOT NULL DEFAULT 0;
-- Comparisons made to settle whose word counts, and agents (comma-separated) whose word was found not to.
ALTER TABLE study_workloads ADD COLUMN looks INTEGER NOT NULL DEFAULT 0;
ALTER TABLE study_workloads ADD COLUMN doubted TEXT NOT NULL DEFAULT '';
-- Agents that shall not take the job (",a,b,"; '': all may) until then: another's word is wanted.
ALTER TABLE jobs ADD COLUMN avoid TEXT NOT NULL DEFAULT '';
ALTER TABLE jobs ADD COLUMN avoid_until INTEGER NOT NULL DEFAULT 0;
-- Schedules that led by the device's word, and what a device of another agent found of them.
ALTER TABLE devices ADD COLUMN confirmed INTEGER NOT NULL DEFAULT 0;
ALTER TABLE devices ADD COLUMN contradicted INTEGER NOT NULL DEFAULT 0;
