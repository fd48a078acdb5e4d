#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "src/base/hash.h"
#include "src/serve/service_impl.h"
#include "tuner_db/backup.h"

namespace lw {

namespace v1 = loopwright::v1;

// The name is made here: nothing of the request reaches the file system. A repetition of the
// request makes no second file.
absl::Status Service::backup_database(const Caller& caller,
                                      const v1::BackupDatabaseRequest& request,
                                      v1::BackupDatabaseResponse* response) {
  RETURN_IF_ERROR(check_request_id(request.request_id()));  // or a copy would be left behind
  std::string folder = options_.backup_folder;
  if (folder.empty()) {
    if (database_->is_shared()) {
      return api_error(v1::ERROR_REASON_WRONG_STATE,
                       "the server was started without --backups, and its database is elsewhere");
    }
    folder = std::filesystem::path(database_->path()).parent_path();
  }
  bool known = false;
  const std::string who = actor(caller);   // outlives the query
  RETURN_IF_ERROR(view([&]() -> absl::Status {
    Query query = database_->query("SELECT 1 FROM requests WHERE actor = ? AND id = ?",
                                   who, request.request_id());
    known = query.next();
    return query.status();
  }));
  const std::string name = concat("loopwright-", make_id(now_ms()), ".db");
  const std::string path = std::filesystem::path(folder) / name;
  if (!known) RETURN_IF_ERROR(store_error(backup(*database_, path)));
  return change(caller, "BackupDatabase", request, response,
                [&](Database&, Changes*) -> absl::Status {
    std::ifstream file(path, std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(file)), {});
    response->set_file(name);
    response->set_bytes(static_cast<int64_t>(bytes.size()));
    response->set_sha256(sha256(bytes));
    return absl::OkStatus();
  });
}

}  // namespace lw
