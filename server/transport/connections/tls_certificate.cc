#include "server/transport/connections/tls_certificate.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <climits>
#include <ctime>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace fovea {
namespace {

template <auto kFree>
struct Free {
  template <typename T>
  void operator()(T* object) const {
    kFree(object);
  }
};
using Bio = std::unique_ptr<BIO, Free<BIO_free_all>>;
using Certificate = std::unique_ptr<X509, Free<X509_free>>;
using Key = std::unique_ptr<EVP_PKEY, Free<EVP_PKEY_free>>;
using Context = std::unique_ptr<SSL_CTX, Free<SSL_CTX_free>>;
using Names = std::unique_ptr<GENERAL_NAMES, Free<GENERAL_NAMES_free>>;

// TLS 1.2 with forward secrecy and authenticated encryption, as gRPC's port has it and TLS 1.3
// always.
constexpr char kTls12Suites[] = "ECDHE+AESGCM:ECDHE+CHACHA20";

// What ALPN calls HTTP/1.1, behind its length.
constexpr unsigned char kHttp11[] = {8, 'h', 't', 't', 'p', '/', '1', '.', '1'};

// OpenSSL keeps errors for whoever asks next on this thread.
absl::Status Refused(std::string_view reason, std::string_view message) {
  ERR_clear_error();
  return InvalidArgument(reason, message);
}

Bio Reader(const std::string& text) {
  return Bio(
      BIO_new_mem_buf(text.data(), text.size() > INT_MAX ? 0 : static_cast<int>(text.size())));
}

// All of a text. Empty where one of them does not parse, or there is none.
std::vector<Certificate> ReadCertificates(const std::string& text) {
  std::vector<Certificate> certificates;
  const Bio reader = Reader(text);
  while (X509* const one = PEM_read_bio_X509(reader.get(), nullptr, nullptr, nullptr)) {
    certificates.emplace_back(one);
  }
  const bool at_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  ERR_clear_error();
  if (!at_end) certificates.clear();
  return certificates;
}

int NoPassphrase(char*, int, int, void*) { return -1; }

int ChooseHttp11(SSL*, const unsigned char** chosen, unsigned char* length,
                 const unsigned char* offered, unsigned int offered_length, void*) {
  unsigned char* found = nullptr;
  if (SSL_select_next_proto(&found, length, kHttp11, sizeof(kHttp11), offered, offered_length) !=
      OPENSSL_NPN_NEGOTIATED) {
    return SSL_TLSEXT_ERR_ALERT_FATAL;
  }
  *chosen = found;
  return SSL_TLSEXT_ERR_OK;
}

absl::Status AskForCertificates(const std::string& client_ca, SSL_CTX* context) {
  const std::vector<Certificate> issuers = ReadCertificates(client_ca);
  if (issuers.empty()) {
    return Refused("tls.client_ca", "the issuers of callers' certificates are no PEM certificates");
  }
  for (const Certificate& issuer : issuers) {
    if (X509_STORE_add_cert(SSL_CTX_get_cert_store(context), issuer.get()) != 1 ||
        SSL_CTX_add_client_CA(context, issuer.get()) != 1) {
      return Refused("tls.client_ca", "the issuers of callers' certificates cannot be used");
    }
  }
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  return absl::OkStatus();
}

std::string TextOf(const ASN1_STRING* text) {
  return {reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
          static_cast<size_t>(ASN1_STRING_length(text))};
}

}  // namespace

absl::Status CheckIssuers(const std::string& issuers) {
  if (!ReadCertificates(issuers).empty()) return absl::OkStatus();
  return Refused("tls.issuers", "the issuers are no PEM certificates");
}

absl::Status ConfigureTls(const TlsCertificate& certificate, SSL_CTX* context) {
  const std::vector<Certificate> chain = ReadCertificates(certificate.chain);
  if (chain.empty()) return Refused("tls.certificate", "the certificate is no PEM certificate");
  const Bio reader = Reader(certificate.key);
  const Key key(PEM_read_bio_PrivateKey(reader.get(), nullptr, NoPassphrase, nullptr));
  if (key == nullptr) {
    return Refused("tls.key", "the key is no PEM key, or a passphrase is needed to read it");
  }
  if (X509_check_private_key(chain[0].get(), key.get()) != 1) {
    return Refused("tls.key_mismatch", "the key is not the certificate's");
  }
  bool usable = SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) == 1 &&
                SSL_CTX_set_cipher_list(context, kTls12Suites) == 1 &&
                SSL_CTX_use_certificate(context, chain[0].get()) == 1 &&
                SSL_CTX_use_PrivateKey(context, key.get()) == 1;
  for (size_t i = 1; i < chain.size(); ++i) {
    usable = usable && SSL_CTX_add1_chain_cert(context, chain[i].get()) == 1;
  }
  if (!usable) return Refused("tls.weak", "OpenSSL does not take the certificate: is it too weak?");
  SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_TICKET);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(context, 0);
  SSL_CTX_set_alpn_select_cb(context, ChooseHttp11, nullptr);
  if (certificate.client_ca.empty()) return absl::OkStatus();
  return AskForCertificates(certificate.client_ca, context);
}

absl::StatusOr<TlsCertificate> CheckTlsCertificate(std::string chain, std::string key,
                                                   std::string client_ca, int64_t now) {
  TlsCertificate certificate{
      .chain = std::move(chain), .key = std::move(key), .client_ca = std::move(client_ca)};
  const Context context(SSL_CTX_new(TLS_server_method()));
  if (context == nullptr) return Internal("tls.context", "OpenSSL cannot be used");
  FOVEA_RETURN_IF_ERROR(ConfigureTls(certificate, context.get()));
  const X509* const own = SSL_CTX_get0_certificate(context.get());
  time_t at = now;
  if (X509_cmp_time(X509_get0_notBefore(own), &at) >= 0) {
    return Refused("tls.not_yet_valid", "the certificate is not valid yet");
  }
  if (X509_cmp_time(X509_get0_notAfter(own), &at) <= 0) {
    return Refused("tls.expired", "the certificate has expired");
  }
  tm expires{};
  if (ASN1_TIME_to_tm(X509_get0_notAfter(own), &expires) != 1) {
    return Refused("tls.certificate", "the certificate tells no time of its end");
  }
  certificate.expires = timegm(&expires);
  return certificate;
}

std::string PeerName(const SSL* connection) {
  const Certificate peer(SSL_get1_peer_certificate(connection));
  if (peer == nullptr) return "";
  const Names names(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(peer.get(), NID_subject_alt_name, nullptr, nullptr)));
  for (int i = 0; names != nullptr && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const GENERAL_NAME* const name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type == GEN_DNS || name->type == GEN_URI || name->type == GEN_EMAIL) {
      return TextOf(name->d.ia5);
    }
  }
  const X509_NAME* const subject = X509_get_subject_name(peer.get());
  const int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
  return at < 0 ? "" : TextOf(X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)));
}

}  // namespace fovea
