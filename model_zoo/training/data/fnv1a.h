// The 64-bit hash FNV-1a of Fowler, Noll and Vo: the same on every machine, as std::hash is not.
#pragma once

#include <cstdint>
#include <string_view>

namespace fovea::models::training {

// Of the text that `hash` is of, and `more` behind it.
inline uint64_t Fnv1a(std::string_view more, uint64_t hash = 0xcbf29ce484222325) {
  for (const char c : more) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

}  // namespace fovea::models::training
