// What OpenSSL gives to whoever frees it. Internal to src/net.
#pragma once

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>

namespace lw {

template <auto Free>
struct Freer {
  template <class T>
  void operator()(T* value) const { Free(value); }
};
using Bio = std::unique_ptr<BIO, Freer<BIO_free_all>>;
using Certificate = std::unique_ptr<X509, Freer<X509_free>>;
using PrivateKey = std::unique_ptr<EVP_PKEY, Freer<EVP_PKEY_free>>;
using CertificateStore = std::unique_ptr<X509_STORE, Freer<X509_STORE_free>>;
using StoreContext = std::unique_ptr<X509_STORE_CTX, Freer<X509_STORE_CTX_free>>;
using AlternativeNames = std::unique_ptr<GENERAL_NAMES, Freer<GENERAL_NAMES_free>>;

}  // namespace lw
