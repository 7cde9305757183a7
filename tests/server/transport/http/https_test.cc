// Row 49 of docs/faults.md: HTTP within TLS. The callers are OpenSSL's, over plain sockets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/ssl.h>

#include <memory>
#include <string>

#include "server/core/testing/notification.h"
#include "server/transport/http/http_server.h"
#include "tests/server/transport/connections/certificates.h"
#include "tests/server/transport/http/http_testing.h"

namespace fovea {
namespace {

using ::testing::EndsWith;
using ::testing::StartsWith;

// A caller; empty answers where the connection has ended.
class TlsCaller {
 public:
  explicit TlsCaller(int port, const MadeCertificate* shown = nullptr) : connection_(port) {
    context_.reset(SSL_CTX_new(TLS_client_method()), SSL_CTX_free);
    if (shown != nullptr) {
      SSL_CTX_use_certificate(context_.get(), shown->x509.get());
      SSL_CTX_use_PrivateKey(context_.get(), shown->private_key.get());
    }
    ssl_.reset(SSL_new(context_.get()), SSL_free);
    SSL_set_fd(ssl_.get(), connection_.file());
  }
  SSL* ssl() { return ssl_.get(); }
  bool ShakeHands() { return SSL_connect(ssl_.get()) == 1; }
  bool Send(std::string_view text) {
    return SSL_write(ssl_.get(), text.data(), static_cast<int>(text.size())) > 0;
  }
  std::string ReadAll() {
    std::string all;
    char bytes[4096];
    for (int got; (got = SSL_read(ssl_.get(), bytes, sizeof(bytes))) > 0;) {
      all.append(bytes, static_cast<size_t>(got));
    }
    return all;
  }
  // What comes on the connection itself, until the other side closes it.
  std::string ReadRaw() { return connection_.ReadAll(); }
  std::string Ask(std::string_view request) {
    return ShakeHands() && Send(request) ? ReadAll() : "";
  }
  void Close() {
    SSL_shutdown(ssl_.get());
    connection_.Close();
  }

 private:
  HttpConnection connection_;
  std::shared_ptr<SSL_CTX> context_;
  std::shared_ptr<SSL> ssl_;
};

constexpr std::string_view kLast = "GET /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";

class HttpsTest : public ::testing::Test {
 protected:
  void Start(const std::string& client_ca = "", HttpServerOptions options = {}) {
    options.port = 0;
    options.tls = tls_ = std::make_shared<TlsCertificates>(
        TlsCertificate{.chain = own_.certificate, .key = own_.key, .client_ca = client_ca});
    auto server = HttpServer::Create(
        options, budget_, SteadyClock(), [this](std::shared_ptr<HttpExchange> e) {
          if (hold_) {
            e->OnGone([this] { gone_.Notify(); });
            held_ = std::move(e);
            arrived_.Notify();
            return;
          }
          e->Answer({.body = {e->request().tls ? "tls " : "plain ", e->request().certificate}});
        });
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  void TearDown() override {
    held_.reset();
    if (server_ != nullptr) server_->Close();
  }

  MadeCertificate own_ = MakeCertificate();
  MemoryBudget budget_{64 << 20, SteadyClock()};
  std::shared_ptr<TlsCertificates> tls_;
  bool hold_ = false;  // set before a request comes
  Notification arrived_, gone_;
  std::shared_ptr<HttpExchange> held_;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpsTest, AnswersWithinTls) {
  Start();
  TlsCaller caller(server_->port());
  EXPECT_THAT(caller.Ask(kLast), EndsWith("\r\n\r\ntls "));
  EXPECT_EQ(std::string(SSL_get_version(caller.ssl())), "TLSv1.3");
}

TEST_F(HttpsTest, SeveralRequestsAndLargeBodiesGoOverOneConnection) {
  Start();
  TlsCaller caller(server_->port());
  ASSERT_TRUE(caller.ShakeHands());
  const std::string body(3 << 20, 'x');
  caller.Send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: " + std::to_string(body.size()) +
              "\r\n\r\n");
  for (size_t at = 0; at < body.size(); at += 1 << 16) caller.Send(body.substr(at, 1 << 16));
  caller.Send(kLast);
  const std::string answers = caller.ReadAll();
  EXPECT_THAT(answers, StartsWith("HTTP/1.1 200 OK"));
  EXPECT_THAT(answers, EndsWith("tls "));
  EXPECT_NE(answers.find("HTTP/1.1 200", 1), answers.npos);
}

TEST_F(HttpsTest, Row49PlaintextGetsNoAnswer) {
  Start();
  EXPECT_THAT(AskHttp(server_->port(), kLast), testing::Not(StartsWith("HTTP")));
}

TEST_F(HttpsTest, Row49OlderTlsIsRefused) {
  Start();
  TlsCaller caller(server_->port());
  SSL_set_security_level(caller.ssl(), 0);
  SSL_set_min_proto_version(caller.ssl(), TLS1_VERSION);
  SSL_set_max_proto_version(caller.ssl(), TLS1_1_VERSION);
  EXPECT_FALSE(caller.ShakeHands());
}

TEST_F(HttpsTest, Row49SuitesWithoutForwardSecrecyOrWithCbcAreRefused) {
  own_ = MakeCertificate({.curve = nullptr});  // without an RSA key no server has a suite of kRSA
  Start();
  const auto shakes_hands = [&](const char* suites) {
    TlsCaller caller(server_->port());
    SSL_set_max_proto_version(caller.ssl(), TLS1_2_VERSION);
    EXPECT_EQ(SSL_set_cipher_list(caller.ssl(), suites), 1);
    return caller.ShakeHands();
  };
  EXPECT_FALSE(shakes_hands("kRSA+AES+SHA1:kRSA+SHA256:!AESGCM"));
  EXPECT_FALSE(shakes_hands("kRSA+AESGCM"));
  EXPECT_FALSE(shakes_hands("ECDHE+AES+SHA1:ECDHE+SHA256:!AESGCM"));
  EXPECT_TRUE(shakes_hands("ECDHE+AESGCM"));
  EXPECT_TRUE(shakes_hands("ECDHE+CHACHA20"));
}

TEST_F(HttpsTest, Row49ACallerThatSpeaksNoHttp11IsRefused) {
  Start();
  TlsCaller caller(server_->port());
  constexpr unsigned char kH2[] = {2, 'h', '2'};
  SSL_set_alpn_protos(caller.ssl(), kH2, sizeof(kH2));
  EXPECT_FALSE(caller.ShakeHands());
}

TEST_F(HttpsTest, Row49CallersShowACertificateOfAnIssuer) {
  const MadeCertificate issuer = MakeCertificate({.common_name = "issuer"});
  const MadeCertificate robot = MakeCertificate({.common_name = "robot", .issuer = &issuer});
  const MadeCertificate named = MakeCertificate(
      {.common_name = "x", .alternative_names = "DNS:robot.example", .issuer = &issuer});
  const MadeCertificate stranger = MakeCertificate({.common_name = "robot"});
  Start(issuer.certificate);
  EXPECT_THAT(TlsCaller(server_->port(), &robot).Ask(kLast), EndsWith("tls robot"));
  EXPECT_THAT(TlsCaller(server_->port(), &named).Ask(kLast), EndsWith("tls robot.example"));
  EXPECT_EQ(TlsCaller(server_->port()).Ask(kLast), "");
  EXPECT_EQ(TlsCaller(server_->port(), &stranger).Ask(kLast), "");
}

TEST_F(HttpsTest, Row49ANewCertificateIsForNewConnections) {
  Start();
  TlsCaller before(server_->port());
  ASSERT_TRUE(before.ShakeHands());
  const MadeCertificate next = MakeCertificate({.common_name = "next"});
  tls_->Replace({.chain = next.certificate, .key = next.key});
  TlsCaller after(server_->port());
  ASSERT_TRUE(after.ShakeHands());
  const std::shared_ptr<X509> shown(SSL_get1_peer_certificate(after.ssl()), X509_free);
  EXPECT_EQ(X509_cmp(shown.get(), next.x509.get()), 0);
  ASSERT_TRUE(before.Send(kLast));
  EXPECT_THAT(before.ReadAll(), EndsWith("tls "));
}

TEST_F(HttpsTest, Row49AHandshakeThatStopsEndsItsConnection) {
  Start("", {.handshake_time = 50 * kMillisecond});
  HttpConnection silent(server_->port()), slow(server_->port());
  slow.Send("\x16\x03\x01");
  EXPECT_EQ(silent.ReadAll(), "");
  EXPECT_EQ(slow.ReadAll(), "");
}

TEST_F(HttpsTest, ACallerThatEndsTheConnectionCancelsItsRequest) {
  hold_ = true;
  Start();
  TlsCaller caller(server_->port());
  ASSERT_TRUE(caller.ShakeHands());
  caller.Send(kLast);
  arrived_.Wait();
  caller.Close();
  gone_.Wait();
}

TEST_F(HttpsTest, Row37ACallerThatStaysSilentAfterItsLastAnswerIsLetGo) {
  Start();
  TlsCaller caller(server_->port());
  EXPECT_THAT(caller.Ask(kLast), EndsWith("tls "));
  caller.ReadRaw();  // fails where the connection stays open
}

TEST_F(HttpsTest, WhoIsRefusedWhileItSendsReadsWhy) {
  Start("", {.max_body_bytes = 10});
  TlsCaller caller(server_->port());
  ASSERT_TRUE(caller.ShakeHands());
  caller.Send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1048576\r\n\r\n");
  // (Where the connection was reset this fails, or the answer is lost.)
  for (int i = 0; i < 16; ++i) EXPECT_TRUE(caller.Send(std::string(1 << 16, 'x'))) << i;
  EXPECT_THAT(caller.ReadAll(), StartsWith("HTTP/1.1 413 "));
}

TEST_F(HttpsTest, TheServersEndWaitsForNoHandshake) {
  Start();
  HttpConnection silent(server_->port());
  TlsCaller idle(server_->port());
  ASSERT_TRUE(idle.ShakeHands());
  server_->Close();
  EXPECT_EQ(silent.ReadAll(), "");
}

}  // namespace
}  // namespace fovea
