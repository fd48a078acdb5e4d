#include "src/embedded/remote_library.h"

const char* loopwright_remote_version() { return LOOPWRIGHT_VERSION; }

void loopwright_remote_open(const lw::NamedServer& server, lw::ServerSource* source) {
  *source = lw::open_server_source(server);
}
