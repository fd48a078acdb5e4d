// A status carries its details as payloads under their type URLs, which is what google.rpc.Status
// holds too: the conversion copies them over.
#include "src/serve/messages/errors.h"

#include "absl/strings/cord.h"
#include "absl/strings/str_replace.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "src/base/fields/utf8.h"
#include "src/base/message.h"
#include "src/net/times.h"
#include "tuner_db/messages/messages.h"

namespace lw {
namespace {

namespace v1 = loopwright::v1;

constexpr char kDomain[] = "loopwright";
constexpr char kTypes[] = "type.googleapis.com/";
constexpr std::string_view kPrefix = "ERROR_REASON_";

template <class Detail>
std::string type_url() {
  return concat(kTypes, Detail::descriptor()->full_name());
}

template <class Detail>
void attach(absl::Status* status, const Detail& detail) {
  status->SetPayload(type_url<Detail>(), absl::Cord(detail.SerializeAsString()));
}

template <class Detail>
bool find(const absl::Status& status, Detail* detail) {
  const auto payload = status.GetPayload(type_url<Detail>());
  return payload.has_value() && detail->ParseFromString(std::string(*payload));
}

// An error travels in HTTP/2 trailers, of which 8 KiB may come, and more than once in them; and its
// text must be UTF-8, which pieces of a request need not be.
std::string presentable(std::string_view message) {
  constexpr size_t kLongest = 600;
  if (message.size() <= kLongest) return as_utf8(std::string(message));
  return as_utf8(concat(message.substr(0, kLongest), " ..."));
}

absl::StatusCode code_of(Reason reason) {
  if (reason < 10) return absl::StatusCode::kInvalidArgument;
  if (reason < 20) return absl::StatusCode::kNotFound;
  if (reason < 30) return absl::StatusCode::kAborted;
  if (reason < 40) return absl::StatusCode::kFailedPrecondition;
  if (reason < 50) return absl::StatusCode::kResourceExhausted;
  if (reason < 60) return absl::StatusCode::kUnavailable;
  if (reason == v1::ERROR_REASON_NO_CERTIFICATE) return absl::StatusCode::kUnauthenticated;
  if (reason < 70) return absl::StatusCode::kPermissionDenied;
  return reason == v1::ERROR_REASON_CORRUPT ? absl::StatusCode::kDataLoss
                                            : absl::StatusCode::kInternal;
}

void set_retry(absl::Status* status, int64_t delay_ms) {
  google::rpc::RetryInfo retry;
  *retry.mutable_retry_delay() = duration_of_ms(delay_ms);
  attach(status, retry);
}

}  // namespace

std::string_view reason_name(Reason reason) {
  const std::string_view name = v1::ErrorReason_Name(reason);
  return name.substr(std::min(name.size(), kPrefix.size()));
}

absl::Status api_error(Reason reason, std::string_view message) {
  absl::Status status(code_of(reason), presentable(message));
  google::rpc::ErrorInfo info;
  info.set_reason(std::string(reason_name(reason)));
  info.set_domain(kDomain);
  attach(&status, info);
  return status;
}

absl::Status bad_field(std::string_view field, std::string_view problem, Reason reason) {
  // A parser names its text, which is the field, at each of its errors: once is enough.
  std::string own = concat("\n", problem);
  absl::StrReplaceAll({{concat("\n", field, ":"), "\n"}}, &own);
  const std::string shown = presentable(std::string_view(own).substr(1));
  absl::Status status = api_error(reason, concat(field, ": ", shown));
  google::rpc::BadRequest bad;
  google::rpc::BadRequest::FieldViolation& violation = *bad.add_field_violations();
  violation.set_field(std::string(field));
  violation.set_description(shown);
  attach(&status, bad);
  return status;
}

absl::Status not_found(Reason reason, std::string_view name) {
  return api_error(reason, concat(name, " is not there"));
}

absl::Status retry_later(Reason reason, std::string_view message, int64_t delay_ms) {
  absl::Status status = api_error(reason, message);
  set_retry(&status, delay_ms);
  return status;
}

absl::Status overloaded(std::string_view message) {
  constexpr int64_t kRetryMs = 1000;
  return retry_later(v1::ERROR_REASON_OVERLOADED, message, kRetryMs);
}

Reason reason_of(const absl::Status& status) {
  google::rpc::ErrorInfo info;
  Reason reason = v1::ERROR_REASON_UNSPECIFIED;
  if (find(status, &info) && info.domain() == kDomain) {
    v1::ErrorReason_Parse(concat(kPrefix, info.reason()), &reason);
  }
  return reason;
}

absl::Status store_error(const absl::Status& status) {
  if (status.ok() || reason_of(status) != v1::ERROR_REASON_UNSPECIFIED) return status;
  const std::string message(status.message());
  switch (status.code()) {
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kPermissionDenied:
      return retry_later(v1::ERROR_REASON_READ_ONLY, message, 5000);
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kDeadlineExceeded:
      return retry_later(v1::ERROR_REASON_STORE_UNAVAILABLE, message, 1000);
    case absl::StatusCode::kDataLoss:
      return api_error(v1::ERROR_REASON_CORRUPT, message);
    case absl::StatusCode::kInvalidArgument:
      return api_error(v1::ERROR_REASON_INVALID_FIELD, message);
    case absl::StatusCode::kNotFound:
      return api_error(v1::ERROR_REASON_RECORD_NOT_FOUND, message);
    default:
      return status;
  }
}

grpc::Status to_grpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  google::rpc::Status details;
  details.set_code(static_cast<int>(status.code()));
  details.set_message(std::string(status.message()));
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& bytes) {
    google::protobuf::Any& detail = *details.add_details();
    detail.set_type_url(std::string(url));
    detail.set_value(std::string(bytes));
  });
  return {static_cast<grpc::StatusCode>(status.code()), details.message(),
          details.SerializeAsString()};
}

absl::Status from_grpc(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  absl::Status result(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
  google::rpc::Status details;
  if (!details.ParseFromString(status.error_details())) return result;
  for (const google::protobuf::Any& detail : details.details()) {
    result.SetPayload(detail.type_url(), absl::Cord(detail.value()));
  }
  return result;
}

int64_t retry_delay_ms(const absl::Status& status) {
  google::rpc::RetryInfo retry;
  if (!find(status, &retry)) return 0;
  return ms_of(retry.retry_delay());
}

}  // namespace lw
