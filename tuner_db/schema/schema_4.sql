-- Migration step 4: how many daemons in a row ended in the middle of a long step of a study's search.
ALTER TABLE studies ADD COLUMN fruitless INTEGER NOT NULL DEFAULT 0;
