#include "server/lifecycle/tracing.h"

#include <unistd.h>

#include <array>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "server/core/quote.h"
#include "server/core/version.h"
#include "server/lifecycle/reloaded_files.h"
#include "server/tracing/otlp/otlp_sink.h"
#include "server/transport/connections/tls_certificate.h"

namespace fovea {
namespace {

class SpanCounts final : public SpanObserver {
 public:
  explicit SpanCounts(MetricFamilies& families)
      : exported_(families.trace_spans.Add({{"outcome", "exported"}})),
        dropped_(families.trace_spans.Add({{"outcome", "dropped"}})),
        failed_(families.trace_spans.Add({{"outcome", "failed"}})),
        failed_exports_(families.trace_export_failures.Add({})) {}

  void OnExported(int64_t spans) override { exported_.Increment(static_cast<double>(spans)); }
  void OnDropped(int64_t spans) override { dropped_.Increment(static_cast<double>(spans)); }
  void OnFailed(int64_t spans) override { failed_.Increment(static_cast<double>(spans)); }
  void OnFailedExport() override { failed_exports_.Increment(); }

 private:
  prometheus::Counter& exported_;
  prometheus::Counter& dropped_;
  prometheus::Counter& failed_;
  prometheus::Counter& failed_exports_;
};

int HexValue(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char lower = absl::ascii_tolower(static_cast<unsigned char>(c));
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

// As OTEL_RESOURCE_ATTRIBUTES has it: W3C Baggage's percent signs. Nothing where one is alone.
std::optional<std::string> Decoded(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded += text[i];
      continue;
    }
    if (i + 2 >= text.size() || HexValue(text[i + 1]) < 0 || HexValue(text[i + 2]) < 0) {
      return std::nullopt;
    }
    decoded += static_cast<char>(HexValue(text[i + 1]) * 16 + HexValue(text[i + 2]));
    i += 2;
  }
  return decoded;
}

void Set(const std::string& name, std::string value, ResourceAttributes* attributes) {
  for (auto& [known, old] : *attributes) {
    if (known != name) continue;
    old = std::move(value);
    return;
  }
  attributes->emplace_back(name, std::move(value));
}

std::string HostName() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

absl::StatusOr<ResourceAttributes> ResourceOf(const ServerOptions& options) {
  ResourceAttributes attributes = {{"service.name", "fovea"},
                                   {"service.version", kVersion},
                                   {"host.name", HostName()},
                                   {"process.pid", absl::StrCat(getpid())}};
  for (const std::string& text : options.otlp_resource) {
    const absl::string_view pair = absl::StripAsciiWhitespace(text);
    const size_t equals = pair.find('=');
    std::optional<std::string> value;
    if (equals != absl::string_view::npos && equals > 0) {
      value = Decoded({pair.data() + equals + 1, pair.size() - equals - 1});
    }
    if (!value) {
      return InvalidArgument("trace.resource",
                             absl::StrCat("--otlp-resource is NAME=VALUE, not ", InQuotes(text)));
    }
    Set(std::string(pair.substr(0, equals)), *std::move(value), &attributes);
  }
  if (!options.otlp_service_name.empty()) {
    Set("service.name", options.otlp_service_name, &attributes);
  }
  return attributes;
}

absl::StatusOr<OtlpOptions> OtlpOptionsOf(const ServerOptions& options) {
  OtlpOptions otlp{
      .endpoint = options.otlp_endpoint, .issuers = "", .version = kVersion, .resource = {}};
  FOVEA_RETURN_IF_ERROR(CheckEndpoint(options.otlp_endpoint));
  FOVEA_ASSIGN_OR_RETURN(otlp.resource, ResourceOf(options));
  if (!options.otlp_ca.empty()) {
    FOVEA_ASSIGN_OR_RETURN(otlp.issuers, ReadOperatorFile(options.otlp_ca));
    if (const absl::Status status = CheckIssuers(otlp.issuers); !status.ok()) {
      return InvalidArgument(ReasonOf(status), absl::StrCat("--otlp-ca ", options.otlp_ca, ": ",
                                                            std::string(status.message())));
    }
  }
  return otlp;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tracing>> Tracing::Create(const ServerOptions& options,
                                                         Metrics& metrics, Clock& clock) {
  auto tracing = std::make_unique<Tracing>();
  TracerOptions tracer{.sampling = options.trace_sampling,
                       .max_forced_per_second = options.trace_forced_per_second};
  if (!options.otlp_endpoint.empty()) {
    FOVEA_ASSIGN_OR_RETURN(OtlpOptions otlp, OtlpOptionsOf(options));
    tracing->counts_ = std::make_unique<SpanCounts>(metrics.families());
    FOVEA_ASSIGN_OR_RETURN(
        tracing->exporter_,
        SpanExporter::Create({}, MakeOtlpSink(std::move(otlp)), *tracing->counts_, clock));
    tracer.on_not_forced = [&counter = metrics.families().traces_not_forced.Add({})] {
      counter.Increment();
    };
  }
  tracing->tracer_ = std::make_shared<Tracer>(std::move(tracer), tracing->exporter_.get(), clock);
  return tracing;
}

absl::Status CheckTracing(const ServerOptions& options) {
  return options.otlp_endpoint.empty() ? absl::OkStatus() : OtlpOptionsOf(options).status();
}

}  // namespace fovea
