// What the attention operators refuse, and what they say: the operator, the argument and the value.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "tests/kernels/attention_arguments.h"

namespace fovea::kernels {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

template <class Arguments>
class AttentionContractsTest : public testing::Test {};

using All = testing::Types<Dense, Exact, StaticKey, ConvStaticKey, Windows, CrissCross, Axial>;
class OperatorNames {
 public:
  template <class Arguments>
  static std::string GetName(int) {
    const std::string name = NameOf(Arguments());
    return name.substr(0, name.find(':'));
  }
};
TYPED_TEST_SUITE(AttentionContractsTest, All, OperatorNames);

TYPED_TEST(AttentionContractsTest, ValidArgumentsAreTaken) {
  EXPECT_EQ(TypeParam().Error(), "no error");
}

// What is alike for all: query, value and scale.
TYPED_TEST(AttentionContractsTest, QueryValueAndScaleAreChecked) {
  TypeParam right;
  const std::string op = NameOf(right);
  const int64_t rank = right.query.dim();
  const std::string layout =
      rank == 4 ? "[batch, heads, tokens, head_dim]" : "[batch, heads, height, width, head_dim]";
  const auto error = [](auto&& spoil) {
    TypeParam a;
    spoil(a);
    return a.Error();
  };
  EXPECT_EQ(error([](TypeParam& a) {
              a.query = at::randn({3, 8});
            }),
            op + "query must have " + std::to_string(rank) + " dimensions " + layout +
                ", got shape [3, 8]");
  EXPECT_EQ(error([](TypeParam& a) { a.query = a.query.to(at::kInt); }),
            op + "query must be Float, BFloat16, Half or Double, got Int");
  EXPECT_EQ(error([](TypeParam& a) { a.value = a.value.to(at::kDouble); }),
            op + "value must have query's type Float, got Double");
  EXPECT_EQ(error([](TypeParam& a) { a.value = a.value.to(at::kMeta); }),
            op + "value must be on query's device cpu, got meta");
  EXPECT_THAT(error([](TypeParam& a) { a.value = a.value.select(0, 0); }),
              StartsWith(op + "value must have " + std::to_string(rank) + " dimensions"));
  EXPECT_THAT(error([](TypeParam& a) { a.value = a.value.narrow(0, 0, 1); }),
              StartsWith(op + "value must have query's batch size 2, got shape [1, "));
  EXPECT_THAT(error([](TypeParam& a) { a.value = a.value.narrow(1, 0, 2); }),
              StartsWith(op + "value must have query's head count "));
  EXPECT_THAT(error([](TypeParam& a) { a.value = a.value.narrow(-1, 0, 7); }),
              StartsWith(op + "value must have query's head_dim "));
  EXPECT_THAT(error([](TypeParam& a) { a.query = a.query.narrow(2, 0, 0); }),
              StartsWith(op + "query must have at least one "));
  EXPECT_THAT(error([](TypeParam& a) { a.query = a.query.narrow(-1, 0, 0); }),
              StartsWith(op + "query must have at least one channel, got shape ["));
  EXPECT_THAT(error([](TypeParam& a) {
                a.query = a.query.transpose(-1, -2).contiguous().transpose(-1, -2);
              }),
              StartsWith(op + "query must be contiguous in its last dimension, got strides ["));
  EXPECT_THAT(error([](TypeParam& a) {
                a.value = a.value.transpose(-1, -2).contiguous().transpose(-1, -2);
              }),
              StartsWith(op + "value must be contiguous in its last dimension, got strides ["));
  EXPECT_EQ(error([](TypeParam& a) { a.scale = std::numeric_limits<double>::infinity(); }),
            op + "scale must be finite, got inf");
  EXPECT_THAT(error([](TypeParam& a) { a.scale = std::nan(""); }),
              StartsWith(op + "scale must be finite, got"));
}

TEST(TokenContractsTest, KeyAndValueMatch) {
  Refuses<Dense>("key must have query's head_dim 8, got shape [2, 3, 7, 9]", [](auto& a) {
    a.key = at::randn({2, 3, 7, 9});
  });
  Refuses<Exact>("key must have at least one token, got shape [2, 3, 0, 8]", [](auto& a) {
    a.key = at::randn({2, 3, 0, 8});
  });
  Refuses<Dense>("value must have key's token count 7, got shape [2, 3, 6, 8]", [](auto& a) {
    a.value = at::randn({2, 3, 6, 8});
  });
  Refuses<Exact>("value must have key's token count 7, got shape [2, 3, 6, 8]", [](auto& a) {
    a.value = at::randn({2, 3, 6, 8});
  });
}

TEST(TokenContractsTest, BiasesBroadcastAndHaveTheRightType) {
  Refuses<Dense>(
      "bias must broadcast to [batch, heads, query tokens, key tokens] = [2, 3, 5, 7], got shape "
      "[5, 6]",
      [](auto& a) {
        a.bias = at::zeros({5, 6});
      });
  Refuses<Exact>(
      "bias must broadcast to [batch, heads, query tokens, key tokens] = [2, 3, 5, 7], got shape "
      "[1, 2, 3, 5, 7]",
      [](auto& a) {
        a.bias = at::zeros({1, 2, 3, 5, 7});
      });
  Refuses<Dense>("bias must be Float or have query's type Float, got BFloat16",
                 [](auto& a) { a.bias = at::zeros({7}, at::kBFloat16); });
  Refuses<Exact>("bias must be on query's device cpu, got meta",
                 [](auto& a) { a.bias = at::zeros({7}, at::kMeta); });
}

TEST(TokenContractsTest, TopkIsWithinTheKeys) {
  for (const int64_t topk :
       {int64_t{0}, int64_t{-4}, int64_t{8}, std::numeric_limits<int64_t>::max()}) {
    Refuses<Exact>("topk must be in [1, 7] (key's tokens), got " + std::to_string(topk),
                   [&](auto& a) { a.topk = topk; });
  }
}

TEST(StaticKeyContractsTest, StaticKeysAreChecked) {
  Refuses<StaticKey>(
      "static_key must have 3 dimensions [heads, keys, head_dim], got shape "
      "[1, 3, 7, 8]",
      [](auto& a) {
        a.static_key = at::randn({1, 3, 7, 8});
      });
  Refuses<StaticKey>(
      "static_key must have shape [query's heads, value's tokens, head_dim] = [3, 7, 8], "
      "got shape [3, 6, 8]",
      [](auto& a) {
        a.static_key = at::randn({3, 6, 8});
      });
  Refuses<StaticKey>("static_key must have at least one key, got shape [3, 0, 8]", [](auto& a) {
    a.static_key = at::randn({3, 0, 8});
  });
  Refuses<StaticKey>("static_key must have query's type Float, got Half",
                     [](auto& a) { a.static_key = a.static_key.to(at::kHalf); });
  Refuses<StaticKey>("static_key must be on query's device cpu, got meta",
                     [](auto& a) { a.static_key = a.static_key.to(at::kMeta); });
  Refuses<StaticKey>("static_key must be contiguous in its last dimension, got strides [56, 1, 7]",
                     [](auto& a) {
                       a.static_key = at::randn({3, 8, 7}).transpose(1, 2);
                     });
  Refuses<StaticKey>("value must have at least one token, got shape [2, 3, 0, 8]", [](auto& a) {
    a.value = at::randn({2, 3, 0, 8});
  });
}

template <class Arguments>
void ExpectActivationsChecked() {
  Refuses<Arguments>("activation must be one of softmax, gelu, relu, star_relu, got \"silu\"",
                     [](auto& a) { a.activation = "silu"; });
  Refuses<Arguments>("activation_scale must be 1 (only star_relu has one), got 2",
                     [](auto& a) { a.activation_scale = 2.0; });
  Refuses<Arguments>("activation_bias must be 0 (only star_relu has one), got 0.5", [](auto& a) {
    a.activation = "gelu";
    a.activation_bias = 0.5;
  });
  Refuses<Arguments>("activation_scale must be finite, got inf", [](auto& a) {
    a.activation = "star_relu";
    a.activation_scale = std::numeric_limits<double>::infinity();
  });
  Refuses<Arguments>("activation_bias must be finite, got -inf", [](auto& a) {
    a.activation = "star_relu";
    a.activation_bias = -std::numeric_limits<double>::infinity();
  });
}

TEST(StaticKeyContractsTest, ActivationsAreChecked) {
  ExpectActivationsChecked<StaticKey>();
  ExpectActivationsChecked<ConvStaticKey>();
}

TEST(StaticKeyContractsTest, GridsMatchTheTokens) {
  Refuses<ConvStaticKey>("grid must have 2 values, got [6]", [](auto& a) { a.grid = {6}; });
  Refuses<ConvStaticKey>("grid must be in [1, 32768] (the largest supported), got 0", [](auto& a) {
    a.grid = {0, 6};
  });
  Refuses<ConvStaticKey>("grid must be in [1, 32768] (the largest supported), got -3", [](auto& a) {
    a.grid = {-2, -3};
    a.grid[0] = 2;
  });
  Refuses<ConvStaticKey>(
      "grid must be in [1, 32768] (the largest supported), got 4611686018427387904", [](auto& a) {
        a.grid = {int64_t{1} << 62, 4};
      });
  Refuses<ConvStaticKey>(
      "query must have 10 tokens, one for the class and the grid's, got shape [2, 3, 7, 8]",
      [](auto& a) {
        a.grid = {3, 3};
      });
  Refuses<ConvStaticKey>("query must have 6 tokens, the grid's, got shape [2, 3, 7, 8]",
                         [](auto& a) { a.cls_key = std::nullopt; });
  Refuses<ConvStaticKey>("value must have query's token count 7, got shape [2, 3, 6, 8]",
                         [](auto& a) {
                           a.value = at::randn({2, 3, 6, 8});
                         });
}

TEST(StaticKeyContractsTest, ConvolutionsParametersAreChecked) {
  Refuses<ConvStaticKey>(
      "weight must have shape [heads * positions, head_dim, 3, 3] = [18, 8, 3, 3], got shape [18, "
      "8, 5, 5]",
      [](auto& a) {
        a.weight = at::randn({18, 8, 5, 5});
      });
  Refuses<ConvStaticKey>(
      "weight must have 4 dimensions [heads * positions, head_dim, 3, 3], got shape [18, 72]",
      [](auto& a) {
        a.weight = at::randn({18, 72});
      });
  Refuses<ConvStaticKey>("weight must have query's type Float, got BFloat16",
                         [](auto& a) { a.weight = a.weight.to(at::kBFloat16); });
  Refuses<ConvStaticKey>("bias must have shape [heads * positions] = [18], got shape [6]",
                         [](auto& a) { a.bias = at::randn({6}); });
  Refuses<ConvStaticKey>("bias must have query's type Float, got Double",
                         [](auto& a) { a.bias = a.bias->to(at::kDouble); });
  Refuses<ConvStaticKey>("bias must have 1 dimensions [heads * positions], got shape [18, 1]",
                         [](auto& a) {
                           a.bias = at::randn({18, 1});
                         });
  Refuses<ConvStaticKey>(
      "cls_key must have shape [heads, 1, head_dim] = [3, 1, 8], got shape [1, 1, 8]", [](auto& a) {
        a.cls_key = at::randn({1, 1, 8});
      });
  Refuses<ConvStaticKey>("cls_key must be on query's device cpu, got meta",
                         [](auto& a) { a.cls_key = a.cls_key->to(at::kMeta); });
}

TEST(MapContractsTest, KeysHaveTheQuerysShape) {
  Refuses<Windows>("key must have query's height 6, got shape [2, 4, 5, 8, 16]", [](auto& a) {
    a.key = at::randn({2, 4, 5, 8, 16});
  });
  Refuses<CrissCross>("key must have query's width 8, got shape [2, 4, 6, 7, 16]", [](auto& a) {
    a.key = at::randn({2, 4, 6, 7, 16});
  });
  Refuses<Axial>("query must have at least one column, got shape [2, 4, 6, 0, 16]", [](auto& a) {
    a.query = at::randn({2, 4, 6, 0, 16});
  });
}

TEST(MapContractsTest, WindowsDivideTheMapAndShiftsTheWindow) {
  Refuses<Windows>("window must have 2 values, got [3]", [](auto& a) { a.window = {3}; });
  Refuses<Windows>("shift must have 2 values, got [1, 1, 1]", [](auto& a) { a.shift = {1, 1, 1}; });
  Refuses<Windows>("window must divide the map's height 6, got 4", [](auto& a) {
    a.window = {4, 4};
  });
  Refuses<Windows>("window must divide the map's width 8, got 0", [](auto& a) {
    a.window = {3, 0};
  });
  Refuses<Windows>("window must divide the map's width 8, got -8", [](auto& a) {
    a.window = {3, -8};
  });
  Refuses<Windows>("shift must be in [0, 2] (the window less one), got 3", [](auto& a) {
    a.shift = {3, 0};
  });
  Refuses<Windows>("shift must be in [0, 3] (the window less one), got -1", [](auto& a) {
    a.shift = {0, -1};
  });
  Refuses<Windows>(
      "bias must have shape [heads, tokens, tokens] = [4, 12, 12], got shape [1, 12, 12]",
      [](auto& a) {
        a.bias = at::zeros({1, 12, 12});
      });
  Refuses<Windows>("bias must have 3 dimensions [heads, tokens, tokens], got shape [12, 12]",
                   [](auto& a) {
                     a.bias = at::zeros({12, 12});
                   });
  Refuses<Windows>("bias must be Float or have query's type Float, got Half", [](auto& a) {
    a.bias = at::zeros({4, 12, 12}, at::kHalf);
  });
}

TEST(MapContractsTest, AxialArgumentsAreChecked) {
  Refuses<Axial>("query's head count must be a multiple of 4, got 6", [](auto& a) {
    a.query = a.key = a.value = at::randn({2, 6, 6, 8, 16});
  });
  Refuses<Axial>("window must be in [1, 256] (the largest supported), got 0",
                 [](auto& a) { a.window = 0; });
  Refuses<Axial>("shift must be in [0, 4] (the window less one), got 5",
                 [](auto& a) { a.shift = 5; });
  Refuses<Axial>("shift must be in [0, 4] (the window less one), got -1",
                 [](auto& a) { a.shift = -1; });
  Refuses<Axial>(
      "bias_rows must have shape [heads, tokens, tokens] = [1, 8, 8], got shape [1, 6, 6]",
      [](auto& a) {
        a.bias_rows = at::zeros({1, 6, 6});
      });
  Refuses<Axial>(
      "bias_columns must have shape [heads, tokens, tokens] = [1, 6, 6], got shape [2, 6, 6]",
      [](auto& a) {
        a.bias_columns = at::zeros({2, 6, 6});
      });
  Refuses<Axial>(
      "bias_window must have shape [heads, tokens, tokens] = [2, 25, 25], got shape [4, 25, 25]",
      [](auto& a) {
        a.bias_window = at::zeros({4, 25, 25});
      });
  Refuses<Axial>("pad_key must have shape [heads/2, head_dim] = [2, 16], got shape [4, 16]",
                 [](auto& a) {
                   a.pad_key = at::zeros({4, 16});
                 });
  Refuses<Axial>("pad_key must have query's type Float, got Double", [](auto& a) {
    a.pad_key = at::zeros({2, 16}, at::kDouble);
  });
  Refuses<Axial>("pad_value must have 2 dimensions [heads/2, head_dim], got shape [16]",
                 [](auto& a) { a.pad_value = at::zeros({16}); });
  Refuses<Axial>("pad_value must be on query's device cpu, got meta", [](auto& a) {
    a.pad_value = at::zeros({2, 16}, at::kMeta);
  });
}

TEST(MapContractsTest, MetaChecksAlike) {
  Windows a;
  a.query = a.key = a.value = at::empty({2, 4, 6, 8, 16}, at::kMeta);
  EXPECT_EQ(a.Error(), "no error");
  a.window = {4, 4};
  EXPECT_THAT(a.Error(), HasSubstr("window must divide the map's height 6, got 4"));
}

}  // namespace
}  // namespace fovea::kernels
