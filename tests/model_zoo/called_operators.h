// What a layer calls, where its result would be the same by a slower way.
#pragma once
#include <functional>
#include <set>
#include <string>

namespace fovea::models {

// The operators that this thread enters in work(), those that others call among them: "aten::add".
std::multiset<std::string> CalledOperators(const std::function<void()>& work);

}  // namespace fovea::models
