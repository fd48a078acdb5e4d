#include "src/cli/service/service.h"

#include <chrono>
#include <ctime>

#include "absl/strings/str_format.h"
#include "google/protobuf/util/json_util.h"
#include "src/base/clock.h"
#include "src/serve/messages/errors.h"
#include "src/serve/rows/clock.h"

namespace lw {
namespace {

constexpr int kConnectMs = 3000;
constexpr char kDefault[] = "127.0.0.1:7070";

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::Channel>> RemoteService::connect() const {
  ASSIGN_OR_RETURN(ServerGroup servers, ServerGroup::open(server));
  for (size_t i = 0; i < servers.size(); ++i, servers.next()) {
    const auto patience = std::chrono::system_clock::now() + std::chrono::milliseconds(kConnectMs);
    if (servers.channel()->WaitForConnected(patience)) break;
  }
  return servers.channel();
}

std::string RemoteService::words() const {
  std::string words;
  for (const auto& [option, value] :
       {std::pair("server", &server.address), std::pair("tls-ca", &server.tls.ca),
        std::pair("tls-cert", &server.tls.certificate), std::pair("tls-key", &server.tls.key)}) {
    if (!value->empty() && *value != kDefault) words += concat(" --", option, " ", *value);
  }
  return words + (server.insecure ? " --insecure" : "");
}

absl::Status RemoteService::call(
    double deadline_s,
    absl::FunctionRef<grpc::Status(grpc::ClientContext& context)> body) const {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::milliseconds(static_cast<int64_t>(1000 * deadline_s)));
  const grpc::Status status = body(context);
  if (status.ok()) return absl::OkStatus();
  const absl::Status error(from_grpc(status).code(), describe_error(server, status));
  switch (error.code()) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kDataLoss:
    case absl::StatusCode::kInternal:      // the server's bug, not this command's
    case absl::StatusCode::kUnknown:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kUnauthenticated:
      return environment(absl::UnavailableError(error.message()));
    case absl::StatusCode::kPermissionDenied:
      // The request is not for this role to make; or nothing is for this identity any more.
      return reason_of(from_grpc(status)) == loopwright::v1::ERROR_REASON_ROLE_DENIED
                 ? absl::InvalidArgumentError(error.message())
                 : environment(absl::UnavailableError(error.message()));
    default:
      return error;
  }
}

void add_service(CliArguments app, RemoteService* service) {
  service->server.address = kDefault;
  app.add_option("--server", service->server.address,
                 "the service's address: HOST:PORT or unix:PATH; several, comma-separated: the "
                 "first that answers")
      .envname("LOOPWRIGHT_SERVER")
      .capture_default_str();
  add_tls(app, service);
}

void add_tls(CliArguments app, RemoteService* service) {
  app.add_option("--tls-ca", service->server.tls.ca, "PEM file: whom to trust");
  app.add_option("--tls-cert", service->server.tls.certificate, "PEM file: our certificate");
  app.add_option("--tls-key", service->server.tls.key, "PEM file: its key");
  app.add_flag("--insecure", service->server.insecure,
               "plain text to another machine: anybody on the way may read and write");
}

Json as_json(const google::protobuf::Message& message) {
  std::string text;
  google::protobuf::util::JsonPrintOptions options;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  if (!google::protobuf::util::MessageToJsonString(message, &text, options).ok()) return Json();
  return Json::parse(text, nullptr, false);
}

std::string when(const google::protobuf::Timestamp& time) {
  if (time.seconds() == 0) return "-";
  const std::time_t seconds = time.seconds();
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  return absl::StrFormat("%04d-%02d-%02d %02d:%02d:%02d", utc.tm_year + 1900, utc.tm_mon + 1,
                         utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec);
}

std::string with_collection(const std::string& name, const std::string& collection) {
  return name.find('/') == std::string::npos ? concat(collection, "/", name) : name;
}

std::string request_id_or_new(const std::string& given) {
  return given.empty() ? make_id(unix_ms()) : given;
}

void add_request_id(CliArguments app, std::string* id) {
  app.add_option("--request-id", *id,
                 "of this request: repeated with the same id it does nothing a second time");
}

absl::StatusOr<std::pair<std::string, std::string>> parse_label(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    return absl::InvalidArgumentError(concat("--label ", text, ": NAME=VALUE is wanted"));
  }
  return std::pair(text.substr(0, equals), text.substr(equals + 1));
}

}  // namespace lw
