// What a PostgreSQL address says before anybody is called: whom it names, who could listen on the
// way, whether it holds a secret. Pure but for libpq's environment variables (PGHOST, PGSSLMODE,
// ...); thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace lw {

// "postgresql://user@host:port/name" without the password; kInvalidArgument, which does not repeat
// the URL, for what libpq does not understand.
absl::StatusOr<std::string> postgres_name(const std::string& url);

// Beyond this machine a server is spoken to only by TLS and only if its certificate names it
// (sslmode=verify-full); anything less is kInvalidArgument, saying what to do.
absl::Status check_postgres_transport(const std::string& url);

// Whether `text` is a PostgreSQL URL with a password in it.
bool holds_password(std::string_view text);

// `version` as PQserverVersion() gives it. kFailedPrecondition for one that is not enough.
absl::Status check_postgres_version(int version, std::string_view name);

}  // namespace lw
