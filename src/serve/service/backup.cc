#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "src/base/hash.h"
#include "src/serve/core/calls.h"
#include "src/serve/service/fleet.h"
#include "tuner_db/tables/backup.h"

namespace lw {

namespace v1 = loopwright::v1;

namespace {

struct FileDigest {
  int64_t bytes = 0;
  std::string sha256;
};

absl::StatusOr<FileDigest> digest_of(const std::string& path) {
  FileDigest digest;
  Sha256 hash;
  std::ifstream file(path, std::ios::binary);
  std::vector<char> piece(size_t{1} << 20);
  while (file.read(piece.data(), static_cast<std::streamsize>(piece.size())), file.gcount() > 0) {
    hash.add({piece.data(), static_cast<size_t>(file.gcount())});
    digest.bytes += file.gcount();
  }
  if (file.bad() || !file.eof()) {
    return retry_later(v1::ERROR_REASON_STORE_UNAVAILABLE, path + ": cannot be read back", 5000);
  }
  digest.sha256 = hash.finish();
  return digest;
}

}  // namespace

// The name is made here: nothing of the request reaches the file system. A repetition of the
// request makes no second file.
absl::Status Fleet::backup_database(const Caller& caller,
                                    const v1::BackupDatabaseRequest& request,
                                    v1::BackupDatabaseResponse* response) {
  RETURN_IF_ERROR(check_request_id(request.request_id()));  // or a copy would be left behind
  std::string folder = core_.options.backup_folder;
  if (folder.empty()) {
    if (core_.database->is_shared()) {
      return api_error(v1::ERROR_REASON_WRONG_STATE,
                       "the server was started without --backups, and its database is elsewhere");
    }
    folder = std::filesystem::path(core_.database->path()).parent_path();
  }
  ASSIGN_OR_RETURN(const bool known, is_known(core_, caller, request.request_id()));
  const std::string name = concat("loopwright-", make_id(core_.now_ms()), ".db");
  const std::string path = std::filesystem::path(folder) / name;
  // Beside the writer: the copy, which may be larger than memory, and the reading of it.
  FileDigest digest;
  if (!known) {
    RETURN_IF_ERROR(store_error(backup(*core_.database, path)));
    ASSIGN_OR_RETURN(digest, digest_of(path));
  }
  return change(core_, caller, "BackupDatabase", request, response,
                [&](WriteTransaction& tx, Changes*) -> absl::Status {
    response->set_file(name);
    response->set_bytes(digest.bytes);
    response->set_sha256(digest.sha256);
    return absl::OkStatus();
  });
}

}  // namespace lw
