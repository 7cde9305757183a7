// Suggestions for names that are misspelt. The standard library alone: the model zoo has no Abseil.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace fovea {

// The fewest insertions, removals, replacements and swaps of neighbours that make one of the other
// (optimal string alignment).
inline size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    before.swap(above);
    above.swap(row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
  }
  return row[b.size()];
}

// "; did you mean 'NAME'?" with that of `known` whose name is nearest to `written`, at most a third
// of its characters away, or else begins with it; the first of several. Empty where there is none,
// and for `written` of three characters or less. `name_of` gives an entry's name.
template <typename Entries, typename NameOf = std::identity>
std::string DidYouMean(std::string_view written, const Entries& known, NameOf name_of = {}) {
  constexpr size_t kShortest = 4;
  constexpr size_t kLongest = 256;  // names are shorter, and the time grows with the square
  if (written.size() < kShortest || written.size() > kLongest) return "";
  std::string nearest;
  size_t least = written.size() / 3 + 1;
  for (const auto& entry : known) {
    const std::string name(std::invoke(name_of, entry));
    if (name.size() > kLongest || name == written) continue;  // known, and refused all the same
    if (const size_t distance = EditDistance(written, name); distance < least) {
      least = distance;
      nearest = name;
    } else if (nearest.empty() && name.starts_with(written)) {
      nearest = name;  // any that is near goes before it
    }
  }
  return nearest.empty() ? "" : "; did you mean '" + nearest + "'?";
}

}  // namespace fovea
