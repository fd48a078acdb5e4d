-- Migration step 7: what several parts of the service came to need, each in a block of its own.

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
