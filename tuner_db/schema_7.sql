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
