#include "src/serve/access/auth.h"

#include <grpc/grpc_security_constants.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "google/rpc/error_details.pb.h"
#include "src/base/check.h"
#include "src/base/message.h"
#include "src/serve/messages/errors.h"

namespace lw {
namespace {

constexpr std::string_view kTrustDomain = "spiffe://loopwright/";
constexpr size_t kMaxName = 63;

constexpr uint8_t kAdmin = bit(CallerRole::kAdmin);
constexpr uint8_t kClients = kAdmin | bit(CallerRole::kClient);
constexpr uint8_t kImporters = kClients | bit(CallerRole::kImporter);
constexpr uint8_t kReaders = kImporters | bit(CallerRole::kReader);
constexpr uint8_t kAgents = bit(CallerRole::kAgent);
constexpr uint8_t kAll = kReaders | kAgents;

// Every method that the server has; tests/serve/auth_test.cc compares it with the descriptors. The call
// to synchronize is the agents' alone: an admin's certificate must not be able to pose as a board.
constexpr Permission kPermissions[] = {
    {"/loopwright.v1.TuningService/GetCapabilities", kAll, CallClass::kRead},
    {"/loopwright.v1.TuningService/CreateStudy", kClients, CallClass::kSubmit, true},
    {"/loopwright.v1.TuningService/GetStudy", kReaders, CallClass::kRead},
    {"/loopwright.v1.TuningService/ListStudies", kReaders, CallClass::kRead},
    {"/loopwright.v1.TuningService/CancelStudy", kClients, CallClass::kSubmit, true},
    {"/loopwright.v1.TuningService/WatchStudy", kReaders, CallClass::kRead},

    {"/loopwright.v1.AgentService/Synchronize", kAgents, CallClass::kSynchronize},

    {"/loopwright.v1.ScheduleService/BatchLookup", kReaders, CallClass::kLookup},
    {"/loopwright.v1.ScheduleService/PutRecords", kImporters, CallClass::kRecords, true},
    {"/loopwright.v1.ScheduleService/ListHistory", kReaders, CallClass::kRead},
    {"/loopwright.v1.ScheduleService/ListSchedules", kReaders, CallClass::kRead},
    {"/loopwright.v1.ScheduleService/ExportRecords", kReaders, CallClass::kRecords},
    {"/loopwright.v1.ScheduleService/ImportRecords", kImporters, CallClass::kRecords, true},
    {"/loopwright.v1.ScheduleService/WithdrawRecord", kAdmin, CallClass::kOperate, true},
    {"/loopwright.v1.ScheduleService/RestoreRecord", kAdmin, CallClass::kOperate, true},
    {"/loopwright.v1.ScheduleService/AnnulMeasurements", kAdmin, CallClass::kOperate, true},
    {"/loopwright.v1.ScheduleService/ReinstateMeasurements", kAdmin, CallClass::kOperate, true},
    {"/loopwright.v1.ScheduleService/ListWithdrawn", kReaders, CallClass::kRead},
    {"/loopwright.v1.ScheduleService/PollWithdrawn", kReaders, CallClass::kLookup},

    {"/loopwright.v1.FleetService/ListDevices", kReaders, CallClass::kRead},
    {"/loopwright.v1.FleetService/ListAgents", kReaders, CallClass::kRead},
    {"/loopwright.v1.FleetService/DrainDevices", kAdmin, CallClass::kOperate, true},
    {"/loopwright.v1.FleetService/ResumeDevices", kAdmin, CallClass::kOperate, true},
    {"/loopwright.v1.FleetService/QuarantineDevice", kAdmin, CallClass::kOperate, true},
    {"/loopwright.v1.FleetService/ListJobs", kReaders, CallClass::kRead},
    {"/loopwright.v1.FleetService/RequeueJob", kAdmin, CallClass::kOperate, true},
    {"/loopwright.v1.FleetService/GetFleet", kReaders, CallClass::kRead},
    {"/loopwright.v1.FleetService/ListAudit", kAdmin, CallClass::kRead},
    {"/loopwright.v1.FleetService/BackupDatabase", kAdmin, CallClass::kOperate, true},

    {"/google.longrunning.Operations/ListOperations", kReaders, CallClass::kRead},
    {"/google.longrunning.Operations/GetOperation", kReaders, CallClass::kRead},
    {"/google.longrunning.Operations/DeleteOperation", kClients, CallClass::kSubmit, true},
    {"/google.longrunning.Operations/CancelOperation", kClients, CallClass::kSubmit, true},
    {"/google.longrunning.Operations/WaitOperation", kReaders, CallClass::kRead},

    {"/grpc.health.v1.Health/Check", kAll, CallClass::kRead},
    {"/grpc.health.v1.Health/Watch", kAll, CallClass::kRead},
    {"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", kAdmin, CallClass::kRead},
};

bool name_is_fine(std::string_view name) {
  const auto alphanumeric = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  return !name.empty() && name.size() <= kMaxName && alphanumeric(name.front()) &&
         std::all_of(name.begin(), name.end(), [&](char c) {
           return alphanumeric(c) || c == '.' || c == '_' || c == '-';
         });
}

// An error whose ErrorInfo says more than its reason.
absl::Status with_metadata(absl::Status status,
                           const std::map<std::string, std::string>& metadata) {
  constexpr char kErrorInfo[] = "type.googleapis.com/google.rpc.ErrorInfo";
  google::rpc::ErrorInfo info;
  if (const auto payload = status.GetPayload(kErrorInfo); payload.has_value()) {
    info.ParseFromString(std::string(*payload));
  }
  for (const auto& [key, value] : metadata) (*info.mutable_metadata())[key] = value;
  status.SetPayload(kErrorInfo, absl::Cord(info.SerializeAsString()));
  return status;
}

absl::Status denied(const Identity& identity, std::string_view method, std::string_view message) {
  return with_metadata(api_error(loopwright::v1::ERROR_REASON_ROLE_DENIED, message),
                       {{"role", std::string(role_name(identity.role))},
                        {"name", identity.name},
                        {"method", std::string(method)}});
}

absl::Status no_certificate(std::string_view message) {
  return api_error(loopwright::v1::ERROR_REASON_NO_CERTIFICATE, message);
}

bool is_own_service(std::string_view method) {
  constexpr std::string_view kOwn[] = {"/loopwright.v1.", "/google.longrunning.Operations/"};
  return std::any_of(std::begin(kOwn), std::end(kOwn), [&](std::string_view prefix) {
    return method.substr(0, prefix.size()) == prefix;
  });
}

class DenyByDefault final : public grpc::AuthMetadataProcessor {
 public:
  explicit DenyByDefault(const DenyList* denied) : denied_(denied) {}
  bool IsBlocking() const override { return false; }

  grpc::Status Process(const InputMetadata& metadata, grpc::AuthContext* peer, OutputMetadata*,
                       OutputMetadata*) override {
    const auto path = metadata.find(":path");
    if (path == metadata.end()) return {grpc::StatusCode::PERMISSION_DENIED, "no method"};
    const std::string_view method(path->second.data(), path->second.size());
    const absl::StatusOr<Identity> identity = identity_of(*peer, /*tls=*/true);
    // Our handlers repeat both checks, and word them with details; only what they never see, or
    // what is in no table, ends here.
    if (is_own_service(method) && find_permission(method) != nullptr) return grpc::Status::OK;
    if (!identity.ok()) return to_grpc(identity.status());
    absl::Status status = authorize(*identity, method);
    if (status.ok() && denied_ != nullptr) status = denied_->check(*identity);
    return to_grpc(status);
  }

 private:
  const DenyList* const denied_;
};

}  // namespace

std::string_view role_name(CallerRole role) {
  switch (role) {
    case CallerRole::kReader: return "reader";
    case CallerRole::kClient: return "client";
    case CallerRole::kAgent: return "agent";
    case CallerRole::kAdmin: return "admin";
    case CallerRole::kImporter: return "importer";
  }
  CHECK(false);
  return "";
}

bool is_believed(CallerRole role) {
  return role == CallerRole::kAdmin || role == CallerRole::kImporter;
}

Identity local_identity() { return {CallerRole::kAdmin, "local", false}; }

std::string identity_text(const Identity& identity) {
  return concat(role_name(identity.role), "/", identity.name);
}

absl::StatusOr<Identity> parse_identity_uri(std::string_view uri) {
  if (uri.substr(0, kTrustDomain.size()) != kTrustDomain) {
    return absl::InvalidArgumentError(concat("'", uri, "' does not begin with ", kTrustDomain));
  }
  const std::string_view path = uri.substr(kTrustDomain.size());
  const size_t slash = path.find('/');
  const std::string_view name = slash == std::string_view::npos ? "" : path.substr(slash + 1);
  if (!name_is_fine(name)) {
    return absl::InvalidArgumentError(concat(
        "'", uri, "' is not ", kTrustDomain, "ROLE/NAME, the name 1 to 63 of A-Z a-z 0-9 . _ -"));
  }
  for (const CallerRole role : {CallerRole::kReader, CallerRole::kClient, CallerRole::kAgent,
                                CallerRole::kAdmin, CallerRole::kImporter}) {
    if (path.substr(0, slash) == role_name(role)) return Identity{role, std::string(name), true};
  }
  return absl::InvalidArgumentError(
      concat("'", path.substr(0, slash), "' is no role that calls: reader, client, importer, agent, admin"));
}

absl::StatusOr<Identity> identity_of(std::span<const std::string> uris) {
  const std::string* own = nullptr;
  for (const std::string& uri : uris) {
    if (uri.substr(0, kTrustDomain.size()) != kTrustDomain) continue;
    if (own != nullptr) {
      return no_certificate(concat("the certificate has two names: ", *own, " and ", uri));
    }
    own = &uri;
  }
  if (own == nullptr) {
    return no_certificate(concat("the certificate names nobody: it has no URI ", kTrustDomain,
                                 "ROLE/NAME among its subject's alternative names"));
  }
  absl::StatusOr<Identity> identity = parse_identity_uri(*own);
  if (!identity.ok()) {
    return no_certificate(concat("the certificate's name cannot be used: ",
                                 std::string(identity.status().message())));
  }
  return identity;
}

absl::StatusOr<Identity> identity_of(const grpc::AuthContext& peer, bool tls) {
  if (!tls) return local_identity();
  if (!peer.IsPeerAuthenticated()) return no_certificate("no certificate was shown");
  std::vector<std::string> uris;
  for (const grpc::string_ref& uri : peer.FindPropertyValues(GRPC_PEER_URI_PROPERTY_NAME)) {
    uris.emplace_back(uri.data(), uri.size());
  }
  return identity_of(uris);
}

std::string_view call_class_name(CallClass call_class) {
  switch (call_class) {
    case CallClass::kRead: return "read";
    case CallClass::kLookup: return "lookup";
    case CallClass::kSubmit: return "submit";
    case CallClass::kRecords: return "records";
    case CallClass::kSynchronize: return "synchronize";
    case CallClass::kOperate: return "operate";
  }
  CHECK(false);
  return "";
}

std::span<const Permission> permissions() { return kPermissions; }

const Permission* find_permission(std::string_view method) {
  for (const Permission& permission : kPermissions) {
    if (permission.method == method) return &permission;
  }
  return nullptr;
}

absl::Status authorize(const Identity& identity, std::string_view method) {
  const Permission* permission = find_permission(method);
  if (permission == nullptr) {
    return denied(identity, method, concat("nobody may call ", method));
  }
  if (!identity.certified) {
    CHECK(identity == local_identity());   // only identity_of makes one without a certificate
    return absl::OkStatus();
  }
  if ((permission->roles & bit(identity.role)) != 0) return absl::OkStatus();
  return denied(identity, method, concat("the role ", role_name(identity.role), " (", identity.name,
                                         ") may not call ", method));
}

absl::Status may_synchronize(const Identity& identity, std::string_view agent) {
  if (!identity.certified || agent == concat("agents/", identity.name)) return absl::OkStatus();
  return denied(identity, "/loopwright.v1.AgentService/Synchronize",
                concat("the certificate is of agents/", identity.name, ", the call speaks for '",
                       agent, "'"));
}

bool owns_study(const Identity& identity, std::string_view actor, std::string_view client) {
  if (identity.role == CallerRole::kAdmin) return true;
  if (!actor.empty()) return actor == identity_text(identity);
  return identity.role == CallerRole::kClient && client == identity.name;
}

absl::Status may_change_study(const Identity& identity, std::string_view method,
                              std::string_view actor, std::string_view client) {
  if (owns_study(identity, actor, client)) return absl::OkStatus();
  return denied(identity, method,
                concat("the study is of '", actor.empty() ? client : actor, "'; ",
                       identity_text(identity), " may end and delete only studies of its own"));
}

absl::Status may_see_pages(const Identity& identity) {
  if (!identity.certified || (kReaders & bit(identity.role)) != 0) return absl::OkStatus();
  return denied(identity, "HTTP", concat("the role ", role_name(identity.role), " (",
                                         identity.name, ") may not read pages and metrics"));
}

void DenyList::set(std::set<std::string> denied) {
  const std::lock_guard lock(mutex_);
  any_ = !denied.empty();
  denied_ = std::move(denied);
}

absl::Status DenyList::check(const Identity& identity) const {
  if (!any_ || !identity.certified) return absl::OkStatus();
  const std::string who = identity_text(identity);
  const std::lock_guard lock(mutex_);
  if (!denied_.contains(who)) return absl::OkStatus();
  return with_metadata(api_error(loopwright::v1::ERROR_REASON_IDENTITY_DENIED,
                                 concat(who, " is denied by the server's configuration")),
                       {{"role", std::string(role_name(identity.role))},
                        {"name", identity.name}});
}

std::shared_ptr<grpc::AuthMetadataProcessor> deny_by_default(const DenyList* denied) {
  return std::make_shared<DenyByDefault>(denied);
}

}  // namespace lw
