// OpenSSL asks a callback for the certificate of each connection, before it says anything of its
// own. What that sets on the connection (certificate, chain, key, authorities) stays the
// connection's, so nothing is shared that a renewal could change under somebody.
#include "src/net/https.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <memory>

#include "src/base/check.h"
#include "src/net/openssl.h"

namespace lw {
namespace {

Bio reading(const std::string& pem) {
  return Bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
}

Certificate next_certificate(const Bio& pem) {
  return Certificate(PEM_read_bio_X509(pem.get(), nullptr, nullptr, nullptr));
}

// The material was checked when it was loaded: what fails here is memory.
bool give(SSL* connection, const TlsMaterial& material) {
  const Bio chain = reading(material.certificate);
  const Certificate leaf = next_certificate(chain);
  const PrivateKey key(
      PEM_read_bio_PrivateKey(reading(material.key).get(), nullptr, nullptr, nullptr));
  if (leaf == nullptr || key == nullptr) return false;
  bool ok = SSL_use_certificate(connection, leaf.get()) == 1 &&
            SSL_use_PrivateKey(connection, key.get()) == 1;
  while (const Certificate next = next_certificate(chain)) {
    ok = ok && SSL_add1_chain_cert(connection, next.get()) == 1;
  }
  const CertificateStore authorities(X509_STORE_new());
  const Bio ca = reading(material.ca);
  while (const Certificate next = next_certificate(ca)) {
    ok = ok && X509_STORE_add_cert(authorities.get(), next.get()) == 1 &&
         SSL_add_client_CA(connection, next.get()) == 1;
  }
  ERR_clear_error();                       // the end of each text
  return ok && SSL_set1_verify_cert_store(connection, authorities.get()) == 1;
}

int certificate_wanted(SSL* connection, void* source) {
  return give(connection, (*static_cast<const MaterialSource*>(source))()) ? 1 : 0;
}

}  // namespace

void use_material(SSL_CTX* context, const MaterialSource& source) {
  CHECK(SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) == 1);
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  // A resumed session would bring an earlier certificate along.
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_options(context, SSL_OP_NO_TICKET);
  SSL_CTX_set_cert_cb(context, certificate_wanted, const_cast<MaterialSource*>(&source));
}

std::vector<std::string> peer_uris(const SSL* connection) {
  std::vector<std::string> uris;
  const Certificate peer(connection == nullptr ? nullptr : SSL_get1_peer_certificate(connection));
  if (peer == nullptr) return uris;
  const AlternativeNames names(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(peer.get(), NID_subject_alt_name, nullptr, nullptr)));
  for (int i = 0; names != nullptr && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type != GEN_URI) continue;
    const ASN1_STRING* uri = name->d.uniformResourceIdentifier;
    uris.emplace_back(reinterpret_cast<const char*>(ASN1_STRING_get0_data(uri)),
                      static_cast<size_t>(ASN1_STRING_length(uri)));
  }
  return uris;
}

}  // namespace lw
