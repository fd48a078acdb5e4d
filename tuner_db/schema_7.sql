-- Migration step 7: what may be forgotten, and who has left.

-- When it left in order (src/serve/online.h); 0: it is there, or fell silent.
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

-- A study that is deleted has the state 'deleted' until its rows are gone (src/serve/deletion.h);
-- its events go from the oldest on.
ALTER TABLE studies ADD COLUMN first_event INTEGER NOT NULL DEFAULT 1;  -- that is kept
-- What of an ended study retention has yet to forget (src/serve/retention.h).
ALTER TABLE studies ADD COLUMN keeps_payloads INTEGER NOT NULL DEFAULT 1;
ALTER TABLE studies ADD COLUMN keeps_events INTEGER NOT NULL DEFAULT 1;
CREATE INDEX studies_by_end ON studies(ended_ms) WHERE ended_ms > 0;
CREATE INDEX studies_with_payloads ON studies(ended_ms) WHERE ended_ms > 0 AND keeps_payloads <> 0;
CREATE INDEX studies_with_events ON studies(ended_ms) WHERE ended_ms > 0 AND keeps_events <> 0;
CREATE INDEX jobs_with_payload ON jobs(study) WHERE ended_ms > 0 AND length(payload) > 0;
CREATE INDEX audit_by_time ON audit(time_ms);
-- A workload goes with its last study.
CREATE INDEX study_workloads_by_workload ON study_workloads(workload);

-- How much each client, "client/ci", has the service keep (tuner_db/usage.h).
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
