#include "src/net/channel.h"


#include "absl/strings/str_split.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "src/base/check.h"
#include "src/base/clock.h"
#include "src/base/log.h"
#include "src/base/message.h"
#include "src/net/times.h"
#include "src/net/tls.h"

namespace lw {
namespace {

constexpr int kMostMessageBytes = 32 << 20;

// What a channel needs for as long as it lives.
struct Secured {
  std::shared_ptr<TlsReloader> reloader;
  std::shared_ptr<grpc::Channel> channel;
};

absl::StatusOr<ClientSecurity> credentials(const ServerAddress& server) {
  TlsOptions options;
  options.report = [](bool taken, std::string_view what) {
    log(taken ? Level::kInfo : Level::kError,
        taken ? "certificate_reloaded" : "certificate_not_reloaded", {{"what", what}});
  };
  absl::StatusOr<ClientSecurity> security =
      client_security(server.address, server.tls, server.insecure, std::move(options));
  if (security.ok() && !security->warning.empty()) {
    log(Level::kWarning, "connection_open", {{"what", security->warning}});
  }
  // Another machine's server without TLS: the caller left something out.
  if (absl::IsFailedPrecondition(security.status()) && !wants_tls(server.tls)) {
    return absl::InvalidArgumentError(security.status().message());
  }
  return security;
}

absl::Status check_address(const ServerAddress& server) {
  const size_t colon = server.address.rfind(':');
  const std::string port = colon == std::string::npos ? "" : server.address.substr(colon + 1);
  const bool is_unix = server.address.rfind("unix:", 0) == 0 && server.address.size() > 5;
  const bool is_port = !port.empty() && port.size() <= 5 && colon > 0 &&
                       port.find_first_not_of("0123456789") == std::string::npos &&
                       std::stoi(port) >= 1 && std::stoi(port) <= 65535;
  if (!is_unix && !is_port) {
    return absl::InvalidArgumentError(
        concat("'", server.address, "' is no address: HOST:PORT or unix:PATH"));
  }
  return absl::OkStatus();
}

std::vector<ServerAddress> each_of(const ServerAddress& servers) {
  std::vector<ServerAddress> each;
  for (const absl::string_view one : absl::StrSplit(servers.address, ',')) {
    each.push_back(servers);
    each.back().address = std::string(one);
  }
  return each;
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

bool is_loopback(std::string_view address) {
  const auto starts = [&](std::string_view with) { return address.substr(0, with.size()) == with; };
  return starts("127.") || starts("localhost:") || starts("[::1]:") || starts("unix:");
}

absl::Status check_server(const ServerAddress& servers) {
  RETURN_IF_ERROR(check_tls_files_complete(servers.tls));
  for (const ServerAddress& server : each_of(servers)) {
    RETURN_IF_ERROR(check_address(server));
    if (!wants_tls(server.tls)) RETURN_IF_ERROR(credentials(server).status());
  }
  if (!wants_tls(servers.tls)) return absl::OkStatus();
  return load_tls_material(servers.tls, TlsSide::kClient, unix_ms() / 1000).status();
}

absl::StatusOr<ServerGroup> ServerGroup::open(const ServerAddress& servers) {
  ServerGroup group;
  group.servers_ = each_of(servers);
  for (const ServerAddress& server : group.servers_) {
    ASSIGN_OR_RETURN(group.channels_.emplace_back(), open_channel(server));
  }
  return group;
}

bool is_away(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::UNAVAILABLE ||
         status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED;
}

absl::StatusOr<std::shared_ptr<grpc::Channel>> open_channel(const ServerAddress& server) {
  RETURN_IF_ERROR(check_address(server));
  ASSIGN_OR_RETURN(ClientSecurity who, credentials(server));
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, static_cast<int>(server.keepalive.time_ms));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, static_cast<int>(server.keepalive.timeout_ms));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 1'000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 5'000);
  arguments.SetMaxReceiveMessageSize(kMostMessageBytes);
  // A connection of its own: agents of one process are as apart as those of several.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  const auto secured = std::make_shared<Secured>();
  secured->channel = grpc::CreateCustomChannel(server.address, who.credentials, arguments);
  secured->reloader = std::move(who.reloader);
  return std::shared_ptr<grpc::Channel>(secured, secured->channel.get());
}

CallError explain(const grpc::Status& status) {
  CallError error;
  google::rpc::Status details;
  if (status.error_details().empty() || !details.ParseFromString(status.error_details())) {
    return error;
  }
  for (const google::protobuf::Any& any : details.details()) {
    google::rpc::ErrorInfo info;
    google::rpc::RetryInfo retry;
    if (any.UnpackTo(&info)) error.reason = info.reason();
    if (any.UnpackTo(&retry)) error.retry_after_s = seconds_of(retry.retry_delay());
  }
  return error;
}

std::string describe_error(const ServerAddress& server, const grpc::Status& status) {
  const std::string& what = status.error_message();
  const bool tls = wants_tls(server.tls);
  std::string hint;
  if (status.error_code() == grpc::StatusCode::UNIMPLEMENTED) {
    hint = "; no Loopwright server of this version answers there";
  } else if (status.error_code() != grpc::StatusCode::UNAVAILABLE &&
             status.error_code() != grpc::StatusCode::DEADLINE_EXCEEDED) {
    hint = "";  // the server's own words
  } else if (contains(what, "handshake") || contains(what, "SSL") ||
             contains(what, "certificate")) {
    hint = "; do both certificates come from the authority in --tls-ca, and are they in date?";
  } else if (status.error_code() == grpc::StatusCode::UNAVAILABLE && !tls &&
             (contains(what, "Socket closed") || contains(what, "reset"))) {
    hint = "; does the server want TLS?";
  } else if (status.error_code() == grpc::StatusCode::UNAVAILABLE &&
             contains(what, "failed to connect")) {
    hint = "; is the server running there?";
  } else if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
    hint = "; the server does not answer";
  }
  return concat(server.address, ": ", what, hint);
}

}  // namespace lw
