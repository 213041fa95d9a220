// The donation plan of a call: which results take the memory of donated arguments. Used by one
// call.
#pragma once

#include <boost/container/small_vector.hpp>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "runtime/executor/entry.hpp"

namespace heddle::rt {

/// Pairs donated arguments with results, one by one. An argument gets the next free result that
/// may take the memory, searched in a circle from the result after the last match. Arguments and
/// results mostly come in the same order, and then the first candidate fits.
class Gifts {
 public:
  explicit Gifts(const CompiledGraph& graph) : graph_(graph) {}
  Gifts(const Gifts&) = delete;
  Gifts& operator=(const Gifts&) = delete;

  /// Finds and notes the result that takes the parameter's memory; none: no result may.
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
  /// Notes a given pair. The result must be free and allowed to take the parameter's memory.
  void pair(std::size_t parameter, std::size_t result) {
    givers_.resize(graph_.results.size(), nobody);
    givers_[result] = static_cast<std::uint32_t>(parameter);
  }
  /// The parameter whose memory the result takes; none: the result has memory of its own.
  [[nodiscard]] std::optional<std::size_t> giver(std::size_t result) const noexcept {
    if (givers_.empty() || givers_[result] == nobody) return {};
    return givers_[result];
  }

 private:
  static constexpr std::uint32_t nobody = ~std::uint32_t{0};
  const CompiledGraph& graph_;
  boost::container::small_vector<std::uint32_t, 16> givers_;  // of each result; empty: no pairs yet
  std::size_t next_ = 0;
};

}  // namespace heddle::rt
