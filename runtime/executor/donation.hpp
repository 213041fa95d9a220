// The donation plan of a call: which results take the memory of donated arguments ("gifts"). Used
// by one call.
#pragma once

#include <boost/container/small_vector.hpp>
#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/executor/entry.hpp"
#include "runtime/launch/taker_search.hpp"

namespace heddle::rt {

class CallArguments;

/// A donated argument.
struct Gift {
  static constexpr std::size_t no_result = ~std::size_t{0};
  std::size_t parameter;
  std::size_t result;  ///< the result that takes the memory, or `no_result`: the call frees it
};

class Donation {
 public:
  /// No gifts yet.
  explicit Donation(const CompiledGraph& graph) : graph_(graph) {}
  /// The gifts of a call: arrays of updated variables (to their new values), arguments, and last
  /// the arrays that the call made. Logs once for each graph where an argument is given in vain.
  explicit Donation(const CallArguments& arguments);
  Donation(const Donation&) = delete;
  Donation& operator=(const Donation&) = delete;

  /// Adds a gift to any free result that may take the memory.
  const Gift& give(std::size_t parameter);

  [[nodiscard]] std::span<const Gift> gifts() const noexcept { return {gifts_.data(), size()}; }
  [[nodiscard]] std::size_t size() const noexcept { return gifts_.size(); }
  /// The index of the gift that the result takes, or `no_gift`: the result has memory of its own.
  static constexpr std::uint32_t no_gift = ~std::uint32_t{0};
  [[nodiscard]] std::uint32_t gift_to(std::size_t result) const noexcept {
    return gift_to_.empty() ? no_gift : gift_to_[result];
  }
  /// True: the call frees no memory, and each updated variable keeps its memory. Otherwise the call
  /// must leave the fast path: memory is freed by the door, and a skipped call must copy the old
  /// values of variables.
  [[nodiscard]] bool keeps_memory() const noexcept { return keeps_memory_; }

 private:
  void give(std::size_t parameter, std::size_t result);

  const CompiledGraph& graph_;
  TakerSearch search_;
  boost::container::small_vector<Gift, 2> gifts_;
  boost::container::small_vector<std::uint32_t, 16> gift_to_;  // of each result; empty: no gifts
  bool keeps_memory_ = true;
};

}  // namespace heddle::rt
