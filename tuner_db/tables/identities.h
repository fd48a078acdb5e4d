// Keys of earlier versions: their targets were named with the cores that the measuring process might
// use, so that one machine had several names (schedules/targets/identity.h). Opening a database
// for writing brings together what belongs together; until then, and for snapshots, which are
// never rewritten, the ladder does it as it reads (ladder.h).
#pragma once

#include "tuner_db/sql/database.h"

namespace lw {

// Names every key, study and withdrawal by its target's identity. Keys that become one share their
// measurements, in the order of arrival, and a trace's are pooled anew. The rows of `targets` stay,
// so that an old id, in a lock file say, can still be read. All or nothing; a database without old
// names is only read. Errors are the database's.
absl::Status adopt_identities(Database& database, double patience_s);

}  // namespace lw
