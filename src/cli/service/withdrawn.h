// Where commands that give out what was locked learn what was withdrawn since: a file that
// `records withdrawn --json` or `db withdrawn --json` printed, and a service.
#pragma once

#include <vector>

#include "src/cli/service/service.h"
#include "tuner_db/ladder/withdrawn_list.h"

namespace lw {

struct WithdrawnFlags {
  std::string file;                        // "": none
  RemoteService service;                   // its address is "" unless one is named

  bool any() const { return !file.empty() || !service.server.address.empty(); }
  // Adds all that the file says, and what the service says of these keys. Whoever is named must
  // answer: kInvalidArgument for the file; errors of the service as RemoteService::call.
  absl::Status read(const std::vector<Key>& keys, WithdrawnReasons* reasons) const;
};

// --withdrawn, --server, --tls-ca, --tls-cert, --tls-key, --insecure.
void add_withdrawn(CliArguments app, WithdrawnFlags* flags);

}  // namespace lw
