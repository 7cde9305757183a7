// Row 49 of docs/faults.md: what is no certificate to serve with.
#include "server/transport/connections/tls_certificate.h"

#include <gtest/gtest.h>

#include <ctime>

#include "base/status.h"
#include "tests/server/transport/connections/certificates.h"

namespace fovea {
namespace {

std::string WhyNot(const std::string& chain, const std::string& key,
                   const std::string& client_ca = "", long from_now = 0) {
  return ReasonOf(CheckTlsCertificate(chain, key, client_ca, time(nullptr) + from_now).status());
}

TEST(TlsCertificateTest, WhatFitsTogetherIsTakenAndItsEndIsTold) {
  const MadeCertificate made = MakeCertificate({.ends = 3600});
  const auto checked = CheckTlsCertificate(made.certificate, made.key, "", time(nullptr));
  ASSERT_TRUE(checked.ok()) << checked.status();
  EXPECT_NEAR(static_cast<double>(checked->expires), static_cast<double>(time(nullptr) + 3600), 60);
}

TEST(TlsCertificateTest, Row49AChainAndIssuersAreTakenToo) {
  const MadeCertificate issuer = MakeCertificate({.common_name = "issuer"});
  const MadeCertificate made = MakeCertificate({.issuer = &issuer});
  EXPECT_EQ(WhyNot(made.certificate + issuer.certificate, made.key, issuer.certificate), "");
}

TEST(TlsCertificateTest, Row49WhatDoesNotFitTogetherIsRefused) {
  const MadeCertificate made = MakeCertificate(), other = MakeCertificate();
  EXPECT_EQ(WhyNot("", made.key), "tls.certificate");
  EXPECT_EQ(WhyNot(made.key, made.key), "tls.certificate");
  EXPECT_EQ(WhyNot(made.certificate.substr(0, made.certificate.size() / 2), made.key),
            "tls.certificate");
  EXPECT_EQ(WhyNot(made.certificate + "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n",
                   made.key),
            "tls.certificate");
  EXPECT_EQ(WhyNot(made.certificate, ""), "tls.key");
  EXPECT_EQ(WhyNot(made.certificate, made.certificate), "tls.key");
  EXPECT_EQ(WhyNot(made.certificate, other.key), "tls.key_mismatch");
  EXPECT_EQ(WhyNot(made.certificate, made.key, "x"), "tls.client_ca");
}

TEST(TlsCertificateTest, Row49OnlyItsOwnTimeIsGood) {
  const MadeCertificate made = MakeCertificate({.begins = 0, .ends = 3600});
  EXPECT_EQ(WhyNot(made.certificate, made.key, "", 60), "");
  EXPECT_EQ(WhyNot(made.certificate, made.key, "", 3660), "tls.expired");
  EXPECT_EQ(WhyNot(made.certificate, made.key, "", -60), "tls.not_yet_valid");
}

TEST(TlsCertificateTest, ConnectionsAreGivenTheNewestAndKeepWhatTheyHave) {
  TlsCertificates certificates({.chain = "first"});
  const auto before = certificates.current();
  certificates.Replace({.chain = "second"});
  EXPECT_EQ(before->chain, "first");
  EXPECT_EQ(certificates.current()->chain, "second");
}

}  // namespace
}  // namespace fovea
