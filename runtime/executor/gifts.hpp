// Which results have the memory of donated arguments. One call's.
#pragma once

#include <boost/container/small_vector.hpp>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "runtime/executor/entry.hpp"

namespace heddle::rt {

/// Pairs arguments with results one by one: each with the next that may have its memory and has no
/// other's, from the last one on, round about. Arguments and results mostly come in one order, so
/// that the next one is the first that is asked.
class Gifts {
 public:
  explicit Gifts(const CompiledGraph& graph) : graph_(graph) {}
  Gifts(const Gifts&) = delete;
  Gifts& operator=(const Gifts&) = delete;

  /// The result that has the memory of that parameter from here on; none: there is none.
  [[nodiscard]] std::optional<std::size_t> pair(std::size_t parameter) {
    const auto& given = graph_.parameters[parameter];
    if (!given.may_be_taken) return {};
    givers_.resize(graph_.results.size(), nobody);
    for (std::size_t asked = 0; asked < givers_.size(); ++asked) {
      const std::size_t result = next_;
      if (++next_ == givers_.size()) next_ = 0;
      if (givers_[result] != nobody || !graph_.may_take(result, parameter)) continue;
      givers_[result] = static_cast<std::uint32_t>(parameter);
      return result;
    }
    return {};
  }
  /// The same of that result, which has no other's yet, and may have this one's memory.
  void pair(std::size_t parameter, std::size_t result) {
    givers_.resize(graph_.results.size(), nobody);
    givers_[result] = static_cast<std::uint32_t>(parameter);
  }
  /// The parameter whose memory that result has, if it has any's.
  [[nodiscard]] std::optional<std::size_t> giver(std::size_t result) const noexcept {
    if (givers_.empty() || givers_[result] == nobody) return {};
    return givers_[result];
  }

 private:
  static constexpr std::uint32_t nobody = ~std::uint32_t{0};
  const CompiledGraph& graph_;
  boost::container::small_vector<std::uint32_t, 16> givers_;  // of each result; empty: none of any
  std::size_t next_ = 0;
};

}  // namespace heddle::rt
