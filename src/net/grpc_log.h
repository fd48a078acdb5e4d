// gRPC's own log lines, as lines of ours: it writes them to stderr in a form of its own. What
// repeats is said once a minute, with a count.
//
// A server's failed handshakes (no certificate, another authority's, no TLS at all) are counted and
// said with their peer. gRPC's line does not name it; of the connections to the server's port it is
// the one that has just sent a little: nearly always right, and said as "peer" only where there is
// one. All functions are thread-safe.
#pragma once

#include <cstdint>

namespace lw {

// From now on, in the whole process.
void take_grpc_log();
// Whose peers are named: the port that the server listens on.
void name_peers_of(int port);
// Since it was last asked.
int64_t take_failed_handshakes();

}  // namespace lw
