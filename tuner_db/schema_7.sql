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
