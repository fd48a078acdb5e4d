// Checking TLS files before use. OpenSSL's own errors name a routine and a number; a person needs
// the file, what is wrong with it, and since or until when. So everything that can go wrong at
// start-up and at a reload is checked here, in the order in which a reader would look: is the file
// there, is it PEM of the right kind, does the key fit, who signed it, for what, from when to when.
// OpenSSL's chain verification decides; we only word its answer.
#include "src/net/certificates.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <limits>
#include <memory>
#include <vector>

#include "src/base/check.h"
#include "src/base/message.h"
#include "src/net/openssl.h"

namespace lw {
namespace {

constexpr size_t kMaxFile = 1 << 20;

absl::Status file_error(const std::string& path, int error) {
  const std::string message = concat(path, ": ", std::strerror(error));
  if (error == ENOENT || error == ENOTDIR) return absl::NotFoundError(message);
  if (error == EACCES || error == EPERM) return absl::PermissionDeniedError(message);
  return absl::InvalidArgumentError(message);
}

absl::StatusOr<std::string> read_file(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return file_error(path, errno);
  struct stat status {};
  std::string text;
  absl::Status result = absl::OkStatus();
  if (fstat(file, &status) != 0) {
    result = file_error(path, errno);
  } else if (!S_ISREG(status.st_mode)) {
    result = absl::InvalidArgumentError(concat(path, ": not a file"));
  }
  char buffer[16384];
  while (result.ok()) {
    const ssize_t count = read(file, buffer, sizeof(buffer));
    if (count == 0) break;
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) result = file_error(path, errno);
    if (count > 0) text.append(buffer, static_cast<size_t>(count));
    if (text.size() > kMaxFile) result = absl::InvalidArgumentError(concat(path, ": above 1 MiB"));
  }
  close(file);
  if (!result.ok()) return result;
  return text;
}

std::vector<Certificate> parse_certificates(const std::string& pem) {
  const Bio bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  std::vector<Certificate> all;
  while (X509* one = PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr)) all.emplace_back(one);
  // The end of the text is an "error" of its own kind; any other is a damaged certificate.
  const unsigned long error = ERR_peek_last_error();
  if (ERR_GET_REASON(error) != PEM_R_NO_START_LINE) all.clear();
  ERR_clear_error();
  return all;
}

// An encrypted key cannot be used by a daemon: nobody is there to type.
int no_password(char*, int, int, void* asked) {
  *static_cast<bool*>(asked) = true;
  return -1;
}

absl::StatusOr<PrivateKey> parse_key(const std::string& pem, const std::string& path) {
  const Bio bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  bool asked = false;
  PrivateKey key(PEM_read_bio_PrivateKey(bio.get(), nullptr, no_password, &asked));
  ERR_clear_error();
  if (asked)
    return absl::InvalidArgumentError(
        concat(path, ": the key is encrypted; a daemon cannot ask for its password"));
  if (key == nullptr)
    return absl::InvalidArgumentError(concat(path, ": holds no complete private key in PEM"));
  return key;
}

int64_t unix_time(const ASN1_TIME* time) {
  std::tm parts{};
  if (ASN1_TIME_to_tm(time, &parts) != 1) return 0;
  return timegm(&parts);
}

std::string name_text(const X509_NAME* name) {
  const Bio bio(BIO_new(BIO_s_mem()));
  X509_NAME_print_ex(bio.get(), name, 0, XN_FLAG_RFC2253);
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &data);
  return size > 0 ? std::string(data, static_cast<size_t>(size)) : "(no name)";
}

std::string first_uri(X509* certificate) {
  const AlternativeNames names(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  for (int i = 0; names != nullptr && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type != GEN_URI) continue;
    const ASN1_STRING* uri = name->d.uniformResourceIdentifier;
    return std::string(reinterpret_cast<const char*>(ASN1_STRING_get0_data(uri)),
                       static_cast<size_t>(ASN1_STRING_length(uri)));
  }
  return "";
}

// Words of a failed verification: the certificate it failed at may be the CA's.
absl::Status explain(X509_STORE_CTX* context, const TlsFiles& files, TlsSide side) {
  const int error = X509_STORE_CTX_get_error(context);
  X509* at = X509_STORE_CTX_get_current_cert(context);
  const bool leaf = X509_STORE_CTX_get_error_depth(context) == 0;
  const std::string subject = at == nullptr ? "" : name_text(X509_get_subject_name(at));
  const std::string whose = leaf
                                ? concat(files.certificate, ": the certificate (", subject, ")")
                                : concat(files.ca, ": the authority's certificate (", subject, ")");
  switch (error) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return absl::FailedPreconditionError(
          concat(whose, " expired at ", utc_text(unix_time(X509_get0_notAfter(at)))));
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return absl::FailedPreconditionError(concat(
          whose, " is not valid before ", utc_text(unix_time(X509_get0_notBefore(at)))));
    case X509_V_ERR_INVALID_PURPOSE:
      return absl::FailedPreconditionError(
          concat(whose, side == TlsSide::kServer
                            ? " is not for servers (extended key usage serverAuth is missing)"
                            : " is not for clients (extended key usage clientAuth is missing)"));
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
      return absl::FailedPreconditionError(
          concat(files.certificate, ": the certificate was not signed by the authority in ",
                 files.ca, " (its issuer calls itself ",
                 at == nullptr ? "" : name_text(X509_get_issuer_name(at)), ")"));
    default:
      return absl::FailedPreconditionError(
          concat(whose, " is refused: ", X509_verify_cert_error_string(error)));
  }
}

// Verifies the first of `chain` against `authorities`; answers when the first of the path expires.
absl::StatusOr<int64_t> verify(const std::vector<Certificate>& chain,
                               const std::vector<Certificate>& authorities, const TlsFiles& files,
                               TlsSide side, int64_t now_s) {
  const CertificateStore store(X509_STORE_new());
  const StoreContext context(X509_STORE_CTX_new());
  STACK_OF(X509)* others = sk_X509_new_null();
  CHECK(store != nullptr && context != nullptr && others != nullptr);
  for (const Certificate& one : authorities) X509_STORE_add_cert(store.get(), one.get());
  for (size_t i = 1; i < chain.size(); ++i) sk_X509_push(others, chain[i].get());
  X509_STORE_CTX_init(context.get(), store.get(), chain[0].get(), others);
  X509_VERIFY_PARAM* policy = X509_STORE_CTX_get0_param(context.get());
  X509_VERIFY_PARAM_set_time(policy, static_cast<time_t>(now_s));
  X509_VERIFY_PARAM_set_purpose(
      policy, side == TlsSide::kServer ? X509_PURPOSE_SSL_SERVER : X509_PURPOSE_SSL_CLIENT);
  absl::StatusOr<int64_t> result = std::numeric_limits<int64_t>::max();
  if (X509_verify_cert(context.get()) != 1) {
    result = explain(context.get(), files, side);
  } else {
    STACK_OF(X509)* path = X509_STORE_CTX_get0_chain(context.get());
    for (int i = 0; i < sk_X509_num(path); ++i) {
      result = std::min(*result, unix_time(X509_get0_notAfter(sk_X509_value(path, i))));
    }
  }
  sk_X509_free(others);
  ERR_clear_error();
  return result;
}

}  // namespace

std::string utc_text(int64_t unix_s) {
  const auto time = static_cast<time_t>(unix_s);
  std::tm parts{};
  gmtime_r(&time, &parts);
  char text[64];
  std::strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S UTC", &parts);
  return text;
}

absl::Status check_tls_files_complete(const TlsFiles& files) {
  if (files.ca.empty() && files.certificate.empty() && files.key.empty()) return absl::OkStatus();
  const std::pair<const char*, const std::string*> options[] = {
      {"--tls-ca", &files.ca}, {"--tls-cert", &files.certificate}, {"--tls-key", &files.key}};
  for (const auto& [option, value] : options) {
    if (value->empty()) {
      return absl::InvalidArgumentError(
          concat(option, " is missing: TLS needs --tls-ca, --tls-cert and --tls-key"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<TlsMaterial> load_tls_material(const TlsFiles& files, TlsSide side, int64_t now_s) {
  TlsMaterial material;
  ASSIGN_OR_RETURN(material.ca, read_file(files.ca));
  ASSIGN_OR_RETURN(material.certificate, read_file(files.certificate));
  ASSIGN_OR_RETURN(material.key, read_file(files.key));
  const std::vector<Certificate> authorities = parse_certificates(material.ca);
  if (authorities.empty()) {
    return absl::InvalidArgumentError(concat(files.ca, ": holds no complete certificate in PEM"));
  }
  const std::vector<Certificate> chain = parse_certificates(material.certificate);
  if (chain.empty()) {
    return absl::InvalidArgumentError(
        concat(files.certificate, ": holds no complete certificate in PEM"));
  }
  ASSIGN_OR_RETURN(const PrivateKey key, parse_key(material.key, files.key));
  const bool fits = X509_check_private_key(chain[0].get(), key.get()) == 1;
  ERR_clear_error();
  if (!fits) {
    return absl::FailedPreconditionError(
        concat(files.key, ": not the key of the certificate in ", files.certificate));
  }
  material.subject = name_text(X509_get_subject_name(chain[0].get()));
  material.uri = first_uri(chain[0].get());
  ASSIGN_OR_RETURN(material.not_after_s, verify(chain, authorities, files, side, now_s));
  return material;
}

}  // namespace lw
