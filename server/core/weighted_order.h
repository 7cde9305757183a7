// A sorted set of keys with weights that knows the sum of the weights before any key.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ext/pb_ds/assoc_container.hpp>
#include <ext/pb_ds/tree_policy.hpp>

#include "base/check.h"

namespace fovea {
namespace internal {

// For libstdc++'s policy-based trees: every node knows the weight of its subtree.
template <typename NodeConstIterator, typename NodeIterator, typename Compare, typename Allocator>
class SubtreeWeight {
 public:
  using metadata_type = int64_t;

  // Called from the leaves up when the subtree of `node` has changed.
  void operator()(NodeIterator node, NodeConstIterator end) const {
    const int64_t weight =
        (*node)->second + WeightOf(node.get_l_child(), end) + WeightOf(node.get_r_child(), end);
    const_cast<int64_t&>(node.get_metadata()) = weight;
  }

  // Of all keys that `compare` puts before `key`.
  template <typename Key>
  int64_t WeightBefore(const Key& key, const Compare& compare) const {
    const NodeConstIterator end = node_end();
    int64_t before = 0;
    for (NodeConstIterator node = node_begin(); node != end;) {
      if (compare((*node)->first, key)) {
        before += (*node)->second + WeightOf(node.get_l_child(), end);
        node = node.get_r_child();
      } else {
        node = node.get_l_child();
      }
    }
    return before;
  }

  virtual NodeConstIterator node_begin() const = 0;
  virtual NodeConstIterator node_end() const = 0;

 protected:
  ~SubtreeWeight() = default;

 private:
  template <typename Node, typename End>
  static int64_t WeightOf(Node node, End end) {
    return node == end ? 0 : node.get_metadata();
  }
};

}  // namespace internal

// Not thread-safe. Every operation takes O(log n). Iterates over pairs of key and weight, in order.
template <typename Key, typename Compare>
class WeightedOrder {
 public:
  // `key` is not there yet.
  void Insert(const Key& key, int64_t weight) {
    FOVEA_CHECK(tree_.insert({key, weight}).second);
    total_ += weight;
  }

  // Whether `key` was there.
  bool Erase(const Key& key) {
    const auto found = tree_.find(key);
    if (found == tree_.end()) return false;
    total_ -= found->second;
    tree_.erase(found);
    return true;
  }

  // The weight of all keys that come before `key`, which need not be there.
  int64_t Before(const Key& key) const { return tree_.WeightBefore(key, Compare()); }
  int64_t total() const { return total_; }

  bool empty() const { return tree_.empty(); }
  size_t size() const { return tree_.size(); }
  const Key& front() const { return tree_.begin()->first; }  // not of an empty one
  auto begin() const { return tree_.begin(); }
  auto end() const { return tree_.end(); }

 private:
  __gnu_pbds::tree<Key, int64_t, Compare, __gnu_pbds::rb_tree_tag, internal::SubtreeWeight> tree_;
  int64_t total_ = 0;
};

}  // namespace fovea
