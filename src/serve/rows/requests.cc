#include "src/serve/rows/requests.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include "src/base/check.h"
#include "src/base/hash.h"
#include "src/base/message.h"
#include "src/serve/messages/errors.h"

namespace lw {
namespace {

namespace v1 = loopwright::v1;

constexpr size_t kLongestId = 100;

}  // namespace

std::string message_digest(const google::protobuf::Message& message) {
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  {
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    message.SerializeToCodedStream(&coded);
  }
  return sha256(bytes);
}

absl::Status check_request_id(std::string_view id) {
  if (!id.empty() && id.size() <= kLongestId) return absl::OkStatus();
  return bad_field("request_id", concat("1 to ", kLongestId, " characters are wanted, best a UUID"),
                   v1::ERROR_REASON_MISSING_REQUEST_ID);
}

absl::Status once(WriteTransaction& tx, std::string_view actor, std::string_view id,
                  std::string_view method, const google::protobuf::Message& request,
                  int64_t now_ms, google::protobuf::Message* response,
                  absl::FunctionRef<absl::Status()> body) {
  RETURN_IF_ERROR(check_request_id(id));
  const std::string hash = message_digest(request);
  {
    Query query = tx.query("SELECT method, hash, response FROM requests "
                           "WHERE actor = ? AND id = ?", actor, id);
    if (query.next()) {
      if (query.text(0) != method || query.text(1) != hash) {
        return api_error(v1::ERROR_REASON_REQUEST_ID_REUSED,
                         concat("request_id '", id, "' was used for another request"));
      }
      CHECK(response->ParseFromString(query.text(2)));
      return absl::OkStatus();
    }
    RETURN_IF_ERROR(query.status());
  }
  response->Clear();
  RETURN_IF_ERROR(body());
  const std::string bytes = response->SerializeAsString();
  return tx.query("INSERT INTO requests (actor, id, method, hash, response, created_ms) "
                  "VALUES (?,?,?,?,?,?)",
                  actor, id, method, hash, Blob{bytes}, now_ms).run();
}

absl::Status forget_requests(WriteTransaction& tx, int64_t now_ms, int count) {
  return tx.query("DELETE FROM requests WHERE created_ms IN (SELECT created_ms FROM requests "
                  "WHERE created_ms < ? ORDER BY created_ms LIMIT ?)",
                  now_ms - kRequestsKeptMs, count).run();
}

}  // namespace lw
