// Backups: an SQLite file of the schema's tables, whichever database they are of, so that one kind
// of file restores into either. It is a database like any other: it can be opened and queried.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "tuner_db/sql/database.h"

namespace lw {

// Writes one consistent snapshot of `database` to `path`, while others go on writing. The file
// appears there, replacing what was there, only when it is whole, verified (SQLite's integrity,
// references, and for PostgreSQL every row against the snapshot) and synced. kInvalidArgument when
// `path` is the database itself.
absl::Status backup(Database& database, const std::string& path);

// Brings the rows of the backup at `path` into the database at `url` (open_database), which is made
// if it is not there. kFailedPrecondition when that has rows already, unless `force`: then they are
// deleted. All or nothing, in one transaction that ends only if every table has the same rows then
// as the backup has. The backup may be of an older schema.
absl::Status restore(const std::string& path, const std::string& url, bool force = false,
                     const DatabaseOptions& options = {});

}  // namespace lw
