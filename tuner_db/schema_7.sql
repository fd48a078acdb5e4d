-- Migration step 7: what may be forgotten, and who has left.

-- When it left in order (src/serve/online.h); 0: it is there, or fell silent.
ALTER TABLE agents ADD COLUMN left_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE devices ADD COLUMN left_ms INTEGER NOT NULL DEFAULT 0;
