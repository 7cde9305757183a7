#include "server/transport/http/accepted_weight.h"

#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace fovea {
namespace {

double WeightOf(absl::Span<const absl::string_view> parameters) {
  for (absl::string_view parameter : parameters) {
    parameter = absl::StripAsciiWhitespace(parameter);
    if (!absl::StartsWithIgnoreCase(parameter, "q=")) continue;
    double weight = 0;
    const bool sound = absl::SimpleAtod(parameter.substr(2), &weight);
    return sound && weight >= 0 && weight <= 1 ? weight : 0;
  }
  return 1;
}

}  // namespace

std::optional<double> AcceptedWeight(std::string_view field, std::string_view name) {
  const absl::string_view wanted(name.data(), name.size());
  for (const absl::string_view one :
       absl::StrSplit(absl::string_view(field.data(), field.size()), ',')) {
    const std::vector<absl::string_view> parts = absl::StrSplit(one, ';');
    if (absl::EqualsIgnoreCase(absl::StripAsciiWhitespace(parts.front()), wanted)) {
      return WeightOf(absl::MakeConstSpan(parts).subspan(1));
    }
  }
  return std::nullopt;
}

bool WantsPng(std::string_view accept) {
  const double picture = AcceptedWeight(accept, "image/png").value_or(0);
  return picture > 0 && picture >= AcceptedWeight(accept, "application/json").value_or(0);
}

}  // namespace fovea
