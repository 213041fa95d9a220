// MissingOrder: a race reported by Sync::check: two unordered uses of the same memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <source_location>
#include <string>

#include "heddle/event.hpp"

#pragma GCC visibility push(default)
namespace heddle {

/// Two uses of the same bytes, at least one of them a write, that no event, wait or device orders:
/// the use submitted later may run before or during the earlier one.
struct MissingOrder {
  struct Use {
    std::string label{};       ///< the task's label: "matmul", "copy"; or the host's action
    std::string device{};      ///< "cc:0.1"; "the host"
    std::uint64_t ticket = 0;  ///< 0: a use by the host
    Event event{};             ///< the task's event
    bool writes = false;
    std::size_t begin = 0, end = 0;  ///< range of bytes in the memory
    std::source_location site{};     ///< where the use was requested; line 0: unknown
    bool lists_events = false;       ///< whether the call at `site` takes events to wait for
    /// "'matmul' (cc:0.1#7) reads bytes 0 to 16, asked for at FILE:12".
    [[nodiscard]] std::string to_string() const;
  };
  std::string memory{};   ///< "tensor 'x' f32[4]"
  Use before{}, after{};  ///< in the order of submission

  /// How to add the order: "submit 'matmul' (cc:0.1#7) with .after = {the event of 'copy'
  /// (cc:0.0#3)}"; if the call of the later use takes no events, a wait by its device; if the host
  /// makes the later use, a wait by the host.
  [[nodiscard]] std::string mend() const;
  /// The whole report, in several lines.
  [[nodiscard]] std::string to_string() const;
};

}  // namespace heddle
#pragma GCC visibility pop
