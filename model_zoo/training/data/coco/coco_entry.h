// One entry of a list of a COCO file, read with care.
#pragma once

#include <charconv>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>
#include <variant>

#include "model_zoo/quoted.h"
#include "model_zoo/training/data/sample_source.h"

namespace fovea::models::training {

// Of coordinates, in pixels: a float holds sixteenths of them there.
inline constexpr double kMaxCocoCoordinate = 1e6;

// COCO's ids are whole numbers; some writers give texts, of numbers ("17") or not (a UUID). Numbers
// come before texts.
using CocoId = std::variant<int64_t, std::string>;

inline std::string Named(const CocoId& id) {
  const auto* number = std::get_if<int64_t>(&id);
  return number != nullptr ? std::to_string(*number) : Quoted(std::get<std::string>(id));
}

// Every function throws DataError, naming the entry, where it does not find what it shall give.
class CocoEntry {
 public:
  // The entry number `place` of its list, from 1 on.
  CocoEntry(const char* kind, int64_t place, const nlohmann::json& object)
      : name_(std::string(kind) + " number " + std::to_string(place)), object_(object) {
    if (Find("id") != nullptr) name_ = std::string(kind) + " " + Named(Id("id"));
  }
  // A part of an entry.
  CocoEntry(const CocoEntry& whole, const nlohmann::json& part)
      : name_(whole.name_), object_(part) {}

  // "annotation 17", or "annotation number 3" where it has no id.
  const std::string& name() const { return name_; }

  [[noreturn]] void Refuse(const std::string& why) const { throw DataError(name_ + ": " + why); }

  const nlohmann::json* Find(const char* key) const {
    const auto found = object_.find(key);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
  }
  const nlohmann::json& At(const char* key) const {
    const nlohmann::json* found = Find(key);
    if (found == nullptr) Refuse(std::string("\"") + key + "\" is missing");
    return *found;
  }
  int64_t Integer(const char* key) const {
    const nlohmann::json& value = At(key);
    // Some writers make every number a real one.
    if (value.is_number_float() && std::abs(value.get<double>()) < 0x1p53 &&
        value.get<double>() == std::floor(value.get<double>())) {
      return static_cast<int64_t>(value.get<double>());
    }
    if (!value.is_number_integer()) Refuse(std::string("\"") + key + "\" is no whole number");
    return value.get<int64_t>();
  }
  CocoId Id(const char* key) const {
    const nlohmann::json& value = At(key);
    if (!value.is_string()) return Integer(key);
    const std::string text = value.get<std::string>();
    int64_t number = 0;
    const char* const end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, number);
    if (error == std::errc() && rest == end) return number;
    if (text.empty()) Refuse(std::string("\"") + key + "\" is empty");
    return text;
  }
  // 0 or 1, false or true; absent: false.
  bool Flag(const char* key) const {
    const nlohmann::json* value = Find(key);
    if (value == nullptr) return false;
    return value->is_boolean() ? value->get<bool>() : Between(key, 0, 1) == 1;
  }
  int Between(const char* key, int64_t least, int64_t most) const {
    const int64_t value = Integer(key);
    if (value < least || value > most) {
      Refuse(std::string("\"") + key + "\" is " + std::to_string(value) + ", not between " +
             std::to_string(least) + " and " + std::to_string(most));
    }
    return static_cast<int>(value);
  }
  std::string Text(const char* key) const {
    const nlohmann::json& value = At(key);
    if (!value.is_string()) Refuse(std::string("\"") + key + "\" is no text");
    return value.get<std::string>();
  }
  double Coordinate(const nlohmann::json& value, const char* of) const {
    if (!value.is_number()) Refuse(std::string("\"") + of + "\" holds what is no number");
    const double number = value.get<double>();
    if (!(std::abs(number) <= kMaxCocoCoordinate)) {
      Refuse(std::string("\"") + of + "\" holds a number above a million");
    }
    return number;
  }

 private:
  std::string name_;
  const nlohmann::json& object_;
};

}  // namespace fovea::models::training
