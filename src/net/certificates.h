// Certificates as files: read whole, checked before anything relies on them, described for people.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lw {

// --tls-ca, --tls-cert, --tls-key: PEM files. The certificate's file may hold intermediates behind
// it.
struct TlsFiles {
  std::string ca;
  std::string certificate;
  std::string key;
};

// None given is fine (no TLS); some but not all is kInvalidArgument naming the missing option.
absl::Status check_tls_files_complete(const TlsFiles& files);
inline bool wants_tls(const TlsFiles& files) { return !files.certificate.empty(); }

enum class TlsSide { kServer, kClient };

// What three files held, checked together.
struct TlsMaterial {
  std::string ca;                          // PEM
  std::string certificate;                 // PEM, chain
  std::string key;                         // PEM: secret, never logged
  std::string subject;                     // "CN=main,OU=server"
  std::string uri;                         // the SAN's first URI, or empty
  int64_t not_after_s = 0;                 // Unix time at which the first of the chain expires
};

// Reads and checks: the files are there, hold what they should, the key is the certificate's, the
// certificate is signed by the CA, is for this side (extended key usage), and all dates hold at
// `now_s` (Unix seconds). Errors name the file: kNotFound, kPermissionDenied or kInvalidArgument
// for unreadable and damaged ones, kFailedPrecondition for ones that do not fit together or to the
// date.
absl::StatusOr<TlsMaterial> load_tls_material(const TlsFiles& files, TlsSide side, int64_t now_s);

// "2026-11-21 18:35:10 UTC"
std::string utc_text(int64_t unix_s);

}  // namespace lw
