// Certificates that a test makes for itself.
#pragma once

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string>

namespace fovea {

struct MadeCertificate {
  std::string certificate, key;  // PEM
  std::shared_ptr<X509> x509;
  std::shared_ptr<EVP_PKEY> private_key;
};

struct CertificateOptions {
  const char* common_name = "localhost";
  const char* alternative_names = nullptr;  // as OpenSSL writes them: "DNS:a,URI:b"
  long begins = -60, ends = 3600;           // seconds from now
  const char* curve = "P-256";              // null: an RSA key of 2,048 bits
  const MadeCertificate* issuer = nullptr;  // null: signed with its own key
};

inline std::string PemOf(int (*write)(BIO*, const void*), const void* object) {
  BIO* const bio = BIO_new(BIO_s_mem());
  write(bio, object);
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(bio, &bytes);
  std::string text(bytes, static_cast<size_t>(size));
  BIO_free(bio);
  return text;
}

inline MadeCertificate MakeCertificate(const CertificateOptions& options = {}) {
  MadeCertificate made;
  made.private_key.reset(options.curve != nullptr ? EVP_EC_gen(options.curve) : EVP_RSA_gen(2048),
                         EVP_PKEY_free);
  made.x509.reset(X509_new(), X509_free);
  X509* const x509 = made.x509.get();
  X509_set_version(x509, 2);
  static long serial = 0;
  ASN1_INTEGER_set(X509_get_serialNumber(x509), ++serial);
  X509_gmtime_adj(X509_getm_notBefore(x509), options.begins);
  X509_gmtime_adj(X509_getm_notAfter(x509), options.ends);
  X509_set_pubkey(x509, made.private_key.get());
  X509_NAME_add_entry_by_txt(X509_get_subject_name(x509), "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(options.common_name), -1, -1,
                             0);
  const auto extend = [&](int name, const char* value) {
    X509_EXTENSION* const extension = X509V3_EXT_conf_nid(nullptr, nullptr, name, value);
    X509_add_ext(x509, extension, -1);
    X509_EXTENSION_free(extension);
  };
  if (options.issuer == nullptr) extend(NID_basic_constraints, "critical,CA:TRUE");
  if (options.alternative_names != nullptr) {
    extend(NID_subject_alt_name, options.alternative_names);
  }
  const MadeCertificate& issuer = options.issuer != nullptr ? *options.issuer : made;
  X509_set_issuer_name(x509, X509_get_subject_name(issuer.x509.get()));
  X509_sign(x509, issuer.private_key.get(), EVP_sha256());
  made.certificate = PemOf(
      [](BIO* bio, const void* object) {
        return PEM_write_bio_X509(bio, static_cast<const X509*>(object));
      },
      x509);
  made.key = PemOf(
      [](BIO* bio, const void* object) {
        return PEM_write_bio_PrivateKey(bio, static_cast<const EVP_PKEY*>(object), nullptr, nullptr,
                                        0, nullptr, nullptr);
      },
      made.private_key.get());
  return made;
}

}  // namespace fovea
