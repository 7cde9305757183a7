#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include "model_zoo/weights/safetensors.h"

namespace fovea::models {
namespace {

// Any damage is either refused or leaves a consistent list; under the sanitizers this is the
// reader's fuzz test.
TEST(SafetensorsHeaderTest, NoCutAndNoChangedByteOfAHeaderIsReadOutOfBounds) {
  const std::string kA = R"({"dtype":"F32","shape":[2],"data_offsets":[0,8]})";
  const std::string header = R"({"__metadata__":{"k":"v"},"a":)" + kA + R"(,"bc":)" +
                             R"({"dtype":"BF16","shape":[2,2],"data_offsets":[8,16]})" + "}";
  for (size_t length = 0; length < header.size(); ++length) {
    EXPECT_THROW(ParseSafetensorsHeader(header.substr(0, length), 16), c10::ValueError) << length;
  }
  int accepted = 0;
  for (size_t i = 0; i < header.size(); ++i) {
    for (int byte = 0; byte < 256; ++byte) {
      std::string changed = header;
      changed[i] = static_cast<char>(byte);
      try {
        uint64_t end = 0;
        for (const StoredTensor& tensor : ParseSafetensorsHeader(changed, 16)) {
          ASSERT_EQ(tensor.begin, end);
          end = tensor.end;
        }
        ASSERT_EQ(end, 16u);
        ++accepted;
      } catch (const c10::ValueError&) {
      }
    }
  }
  EXPECT_GT(accepted, 100);  // other names, for instance
}

}  // namespace
}  // namespace fovea::models
