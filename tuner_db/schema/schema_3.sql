-- Migration step 3: where a time comes from. The numbers are TimeKind's (tuner_db/time_kind.h): 0
-- measured, 10 emulated, 30 estimated. Older rows said so in their environment.

ALTER TABLE measurements ADD COLUMN time_kind INTEGER NOT NULL DEFAULT 0;
-- Of the measurements that the statistics beside it are of.
ALTER TABLE candidates ADD COLUMN time_kind INTEGER NOT NULL DEFAULT 0;
-- What the study's devices give, and what best_us is.
ALTER TABLE study_workloads ADD COLUMN time_kind INTEGER NOT NULL DEFAULT 0;

UPDATE measurements SET time_kind = 30 WHERE environment LIKE '%"estimated":true%';
UPDATE candidates SET time_kind = 30
  WHERE id IN (SELECT candidate FROM measurements WHERE time_kind = 30);
UPDATE study_workloads SET time_kind = 30 WHERE note LIKE 'estimated%';

-- `best` looks among the eligible of the kind nearest to the truth.
DROP INDEX candidates_by_samples;
DROP INDEX candidates_by_median;
CREATE INDEX candidates_by_samples ON candidates(key, time_kind, samples DESC, median_us, id)
  WHERE eligible;
CREATE INDEX candidates_by_median ON candidates(key, time_kind, median_us) WHERE eligible;
