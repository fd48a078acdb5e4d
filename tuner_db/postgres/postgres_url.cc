#include "tuner_db/postgres/postgres_url.h"

#include <libpq-fe.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "src/base/check.h"
#include "tuner_db/sql/database.h"

namespace lw {
namespace {

using Words = std::map<std::string, std::string>;

Words words_of(PQconninfoOption* options) {
  Words words;
  for (const PQconninfoOption* one = options; one != nullptr && one->keyword != nullptr; ++one) {
    if (one->val != nullptr) words[one->keyword] = one->val;
  }
  PQconninfoFree(options);
  return words;
}

absl::StatusOr<Words> parse(const std::string& url) {
  PQconninfoOption* options = PQconninfoParse(url.c_str(), nullptr);
  if (options == nullptr) {
    return absl::InvalidArgumentError(
        "the database's address is malformed; it reads postgresql://USER@HOST:PORT/NAME");
  }
  return words_of(options);
}

std::string word(const Words& words, const char* keyword) {
  const auto found = words.find(keyword);
  return found == words.end() ? "" : found->second;
}

// By how it is written: a socket's folder, or a loopback address.
bool is_this_machine(std::string_view host) {
  return host.empty() || host[0] == '/' || host[0] == '@' || host == "localhost" ||
         host == "::1" || host.starts_with("127.");
}

}  // namespace

absl::StatusOr<std::string> postgres_name(const std::string& url) {
  ASSIGN_OR_RETURN(const Words words, parse(url));
  const std::string user = word(words, "user"), port = word(words, "port");
  return absl::StrCat("postgresql://", user, user.empty() ? "" : "@", word(words, "host"),
                      port.empty() ? "" : ":", port, "/", word(words, "dbname"));
}

absl::Status check_postgres_transport(const std::string& url) {
  ASSIGN_OR_RETURN(Words words, parse(url));
  // A service of pg_service.conf may name any host: it is taken for another machine.
  const bool service = words.contains("service");
  words.merge(words_of(PQconndefaults()));
  const std::string address = word(words, "hostaddr");
  const std::vector<std::string> hosts =
      absl::StrSplit(address.empty() ? word(words, "host") : address, ',');
  if (!service && std::all_of(hosts.begin(), hosts.end(), is_this_machine)) return absl::OkStatus();
  if (word(words, "sslmode") == "verify-full") return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::string name, postgres_name(url));
  return absl::InvalidArgumentError(absl::StrCat(
      name, ": is another machine's, and sslmode=", word(words, "sslmode"), " proves nothing about "
      "who answers: add ?sslmode=verify-full&sslrootcert=FILE to the address, FILE the authority "
      "of the server's certificate; or say --insecure-database, with which whoever is on the way can "
      "read and change everything"));
}

bool holds_password(std::string_view text) {
  if (!is_postgres_url(text)) return false;
  const absl::StatusOr<Words> words = parse(std::string(text));
  return words.ok() && words->contains("password");
}

absl::Status check_postgres_version(int version, std::string_view name) {
  constexpr int kOldest = 120004;
  if (version >= kOldest) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrFormat(
      "%s: PostgreSQL %d.%d is too old: 12.4 is needed (in 12.0 to 12.3 serializable transactions "
      "are not always)", name, version / 10000, version % 10000));
}

}  // namespace lw
