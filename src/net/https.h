// Mutual TLS for a server that is not gRPC's, with the certificate that is in use elsewhere.
// Thread-safe.
#pragma once

#include <openssl/ssl.h>

#include <functional>
#include <string>
#include <vector>

#include "src/net/certificates.h"

namespace lw {

using MaterialSource = std::function<TlsMaterial()>;

// Connections of `context` speak TLS 1.2 or newer, show the certificate that `source` has when they
// begin, and want one of its authority. `source` is asked on the connections' threads; it lives as
// long as the context.
void use_material(SSL_CTX* context, const MaterialSource& source);

// The URIs among the alternative names of the peer's certificate; none without one.
std::vector<std::string> peer_uris(const SSL* connection);

}  // namespace lw
