-- Migration step 5: what a study's candidates cost a device, and queued jobs by study: so that a device
-- finds whose turn it is without a walk over jobs.
-- Candidates that the study itself had measured one by one, and what that took without preparations.
ALTER TABLE study_workloads ADD COLUMN measured INTEGER NOT NULL DEFAULT 0;
ALTER TABLE study_workloads ADD COLUMN measured_s REAL NOT NULL DEFAULT 0;
CREATE INDEX jobs_by_turn ON jobs(target, client, priority, study) WHERE state = 'queued';
