// What a program opens that knows PostgreSQL beside files.
#include <memory>
#include <string>
#include <utility>

#include "src/base/check.h"
#include "tuner_db/sql/database.h"

namespace lw {

absl::StatusOr<std::shared_ptr<Database>> open_database(const std::string& url,
                                                        const DatabaseOptions& options) {
  return open_database_by(connect_postgres, url, options);
}

absl::StatusOr<std::unique_ptr<Store>> open_store(const std::string& url,
                                                  const DatabaseOptions& options) {
  ASSIGN_OR_RETURN(std::shared_ptr<Database> database, open_database(url, options));
  return make_store(std::move(database), options);
}

}  // namespace lw
