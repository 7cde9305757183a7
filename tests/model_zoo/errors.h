// What a call has to say when it throws.
#pragma once

#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <string>

namespace fovea::models {

// The first line of the c10::Error that `call` throws; "no error" when it returns.
template <typename Call>
std::string ErrorOf(Call call) {
  try {
    call();
  } catch (const c10::Error& error) {
    const std::string text = error.what_without_backtrace();
    return text.substr(0, text.find('\n'));
  }
  return "no error";
}

}  // namespace fovea::models
