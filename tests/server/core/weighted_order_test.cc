#include "server/core/weighted_order.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace fovea {
namespace {

TEST(WeightedOrderTest, KnowsTheWeightBeforeAnyKey) {
  WeightedOrder<int, std::less<>> order;
  EXPECT_EQ(order.Before(0), 0);
  order.Insert(20, 2);
  order.Insert(10, 1);
  order.Insert(30, 4);
  EXPECT_EQ(order.Before(10), 0);
  EXPECT_EQ(order.Before(11), 1);
  EXPECT_EQ(order.Before(30), 3);
  EXPECT_EQ(order.Before(31), 7);
  EXPECT_EQ(order.total(), 7);
  EXPECT_EQ(order.front(), 10);
  EXPECT_TRUE(order.Erase(10));
  EXPECT_FALSE(order.Erase(10));
  EXPECT_EQ(order.Before(31), 6);
  EXPECT_EQ(order.front(), 20);
}

TEST(WeightedOrderTest, CountsAsALoopOverAllKeysDoes) {
  std::mt19937 random(1);
  WeightedOrder<int, std::less<>> order;
  std::map<int, int64_t> plain;
  for (int step = 0; step < 20'000; ++step) {
    const int key = static_cast<int>(random() % 2'000);
    if (plain.contains(key) && random() % 2 == 0) {
      EXPECT_TRUE(order.Erase(key));
      plain.erase(key);
    } else if (!plain.contains(key)) {
      const int64_t weight = random() % 100;
      order.Insert(key, weight);
      plain.emplace(key, weight);
    }
    if (step % 50 != 0) continue;
    const int asked = static_cast<int>(random() % 2'000);
    int64_t before = 0, total = 0;
    for (const auto& [one, weight] : plain) {
      total += weight;
      if (one < asked) before += weight;
    }
    ASSERT_EQ(order.Before(asked), before) << step;
    ASSERT_EQ(order.total(), total);
    ASSERT_EQ(order.size(), plain.size());
  }
}

}  // namespace
}  // namespace fovea
