// What a program opens that knows no database but files.
#include <memory>
#include <string>
#include <utility>

#include "src/base/check.h"
#include "tuner_db/sql/database.h"

namespace lw {
namespace {

absl::StatusOr<std::shared_ptr<Database>> no_postgres(const std::string&, const DatabaseOptions&) {
  return absl::UnimplementedError(
      "this build has no PostgreSQL: name a file, or a snapshot, which `loopwright db snapshot` makes "
      "of any database");
}

}  // namespace

absl::StatusOr<std::shared_ptr<Database>> open_database(const std::string& url,
                                                        const DatabaseOptions& options) {
  return open_database_by(no_postgres, url, options);
}

absl::StatusOr<std::unique_ptr<Store>> open_store(const std::string& url,
                                                  const DatabaseOptions& options) {
  ASSIGN_OR_RETURN(std::shared_ptr<Database> database, open_database(url, options));
  return make_store(std::move(database), options);
}

}  // namespace lw
