#include "src/cli/service/withdrawn.h"

#include <algorithm>

#include "loopwright/v1/schedule.grpc.pb.h"
#include "tuner_db/invariants.h"
#include "tuner_db/messages/messages.h"

namespace lw {
namespace {

namespace v1 = loopwright::v1;

constexpr size_t kKeysAtOnce = 1000;       // that a server is asked about
constexpr int kMostRecords = 1 << 30;

void add(const std::string& digest, const std::string& reason, WithdrawnReasons* reasons) {
  if (is_digest(digest)) reasons->emplace(digest, reason);
}

absl::Status read_list(const std::string& path, WithdrawnReasons* reasons) {
  ASSIGN_OR_RETURN(const std::string text, read_text(path));
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  const bool is_list = json.is_object() && json.contains("withdrawn") &&
                       json["withdrawn"].is_array();
  const auto has_text = [](const Json& one, const char* name) {
    return one.is_object() && one.contains(name) && one[name].is_string();
  };
  const absl::Status none = absl::InvalidArgumentError(
      concat(path, ": not what `records withdrawn --json` prints"));
  if (!is_list) return none;
  for (const Json& one : json["withdrawn"]) {
    if (!has_text(one, "digest") || !is_digest(one["digest"].get<std::string>())) return none;
    const auto text_of = [&](const char* name) {
      return has_text(one, name) ? one[name].get<std::string>() : "";
    };
    const std::string reason = reason_text(text_of("actor"), text_of("reason"));
    add(text_of("digest"), reason, reasons);
    add(text_of("kernel_digest"), reason, reasons);
  }
  return absl::OkStatus();
}

absl::Status ask(const RemoteService& service, const std::vector<Key>& keys,
                 WithdrawnReasons* reasons) {
  ASSIGN_OR_RETURN(const std::shared_ptr<grpc::Channel> channel, service.connect());
  const auto stub = v1::ScheduleService::NewStub(channel);
  for (size_t begin = 0; begin < keys.size(); begin += kKeysAtOnce) {
    v1::ListWithdrawnRequest request;
    const size_t end = std::min(keys.size(), begin + kKeysAtOnce);
    for (size_t i = begin; i < end; ++i) *request.add_keys() = to_proto(keys[i]);
    int have = 0;
    RETURN_IF_ERROR(list_all<v1::ListWithdrawnResponse>(
        service, request, kMostRecords,
        [&](grpc::ClientContext& context, const auto& asked, auto* page) {
          return stub->ListWithdrawn(&context, asked, page);
        },
        [&](const v1::ListWithdrawnResponse& page) {
          for (const v1::WithdrawnRecord& record : page.records()) {
            const std::string reason = reason_text(record.actor(), record.reason());
            add(record.digest(), reason, reasons);
            add(record.kernel_digest(), reason, reasons);
          }
          return have += page.records_size();
        }));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status WithdrawnFlags::read(const std::vector<Key>& keys, WithdrawnReasons* reasons) const {
  if (!file.empty()) RETURN_IF_ERROR(read_list(file, reasons));
  return service.server.address.empty() ? absl::OkStatus() : ask(service, keys, reasons);
}

void add_withdrawn(CliArguments app, WithdrawnFlags* flags) {
  app.add_option("--withdrawn", flags->file,
                 "refuse what this file says is withdrawn: `records withdrawn --json`");
  app.add_option("--server", flags->service.server.address,
                 "refuse what this service says is withdrawn; it must answer");
  add_tls(app, &flags->service);
}

}  // namespace lw
