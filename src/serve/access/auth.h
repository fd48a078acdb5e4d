// Who asks, and what they may: an Identity from the peer's certificate, and one table of every
// method.
//
// A certificate names its holder by exactly one URI among its subject's alternative names,
// spiffe://loopwright/ROLE/NAME: SPIFFE's form, because it is the one that service meshes and
// issuers (SPIRE, cert-manager, Vault) know how to put there; "loopwright" is the trust domain.
// Where there is no TLS (a loopback, or --insecure-expose) everybody is the admin "local".
//
// What the table does not list is denied to everybody. Denials are PERMISSION_DENIED with the
// reason ROLE_DENIED and the metadata role, name and method; without a usable certificate
// UNAUTHENTICATED with NO_CERTIFICATE. All functions are pure and thread-safe.
#pragma once

#include <grpcpp/security/auth_context.h>
#include <grpcpp/security/auth_metadata_processor.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lw {

// reader < client < admin is no order: each role is listed where it may. What an importer or an
// admin puts counts (tuner_db/store.h); what a client puts is a hint of what to measure.
enum class CallerRole : uint8_t { kReader, kClient, kAgent, kAdmin, kImporter };
bool is_believed(CallerRole role);
std::string_view role_name(CallerRole role);     // "reader"

struct Identity {
  CallerRole role = CallerRole::kReader;
  std::string name;                        // "ci": 1 to 63 of A-Z a-z 0-9 . _ -
  bool certified = false;                  // by a certificate; else the admin "local"

  bool operator==(const Identity&) const = default;
};
Identity local_identity();
std::string identity_text(const Identity& identity);  // "client/ci", in logs, audit and as a
                                                      // quota's key

// "spiffe://loopwright/agent/board-7". Errors: kInvalidArgument.
absl::StatusOr<Identity> parse_identity_uri(std::string_view uri);
// Of a certificate's URIs exactly one may be in our trust domain; others are of no concern.
absl::StatusOr<Identity> identity_of(std::span<const std::string> uris);
// Of a call. `tls`: whether the server has TLS; without, everybody is local.
absl::StatusOr<Identity> identity_of(const grpc::AuthContext& peer, bool tls);

// What a call costs, for rate limits (src/serve/access/limits.h).
enum class CallClass : uint8_t { kRead, kLookup, kSubmit, kRecords, kSynchronize, kOperate };
inline constexpr int kCallClasses = 6;
std::string_view call_class_name(CallClass call_class);  // "synchronize", the words of --config

struct Permission {
  std::string_view method;                 // "/loopwright.v1.TuningService/CreateStudy"
  uint8_t roles = 0;                       // bit of each CallerRole that may
  CallClass call_class = CallClass::kRead;
  bool audited = false;                    // goes to the audit log, allowed or denied
};
inline constexpr uint8_t bit(CallerRole role) {
  return static_cast<uint8_t>(1u << static_cast<int>(role));
}
std::span<const Permission> permissions();
const Permission* find_permission(std::string_view method);  // null: unknown, so denied

// Whether `identity` may call `method` at all. An identity that is local may call every listed one.
absl::Status authorize(const Identity& identity, std::string_view method);

// Rules beyond the role, for calls that `authorize` has let through:
// an agent speaks only for itself: `agent` is "agents/NAME" with the certificate's name;
absl::Status may_synchronize(const Identity& identity, std::string_view agent);
// a study is of who made it, role and name: `actor` is identity_text() of its maker, `client` the
// maker's name; "" for an actor: an older study, known by its client's name alone. An admin's are
// all.
bool owns_study(const Identity& identity, std::string_view actor, std::string_view client);
// a client ends and deletes only its own studies. `method`: what it calls, for the error.
absl::Status may_change_study(const Identity& identity, std::string_view method,
                              std::string_view actor, std::string_view client);

// Pages, their data and metrics by HTTPS: who may look, looks there too; an agent may not.
absl::Status may_see_pages(const Identity& identity);

// Whose certificate is not honoured any more, whatever its role: "agent/board-7". Thread-safe.
class DenyList {
 public:
  void set(std::set<std::string> denied);
  absl::Status check(const Identity& identity) const;  // PERMISSION_DENIED, IDENTITY_DENIED

 private:
  mutable std::mutex mutex_;
  std::set<std::string> denied_;
  std::atomic<bool> any_{false};           // most lists are empty: calls take no lock
};

// Denies, before any handler runs, what no handler of ours sees: unlisted methods, and health and
// reflection to who may not; and peers without a usable certificate everywhere. Our own services'
// handlers call `authorize` themselves: they can send ErrorInfo, this cannot. For
// ServerCredentials::SetAuthMetadataProcessor of TLS credentials. `denied` outlives the server.
std::shared_ptr<grpc::AuthMetadataProcessor> deny_by_default(const DenyList* denied = nullptr);

}  // namespace lw
