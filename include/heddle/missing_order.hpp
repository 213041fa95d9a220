// MissingOrder: what Sync::check tells: two uses of one memory that nothing puts in order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <source_location>
#include <string>

#include "heddle/event.hpp"

#pragma GCC visibility push(default)
namespace heddle {

/// Two uses of the same bytes, of which one writes, and no event, wait or device puts the later
/// submitted one after the other: it may come before, or in between.
struct MissingOrder {
  struct Use {
    std::string label{};       ///< the task's: "matmul", "copy"; or what the host did
    std::string device{};      ///< "cc:0.1"; "the host"
    std::uint64_t ticket = 0;  ///< 0: the host's
    Event event{};             ///< the task's
    bool writes = false;
    std::size_t begin = 0, end = 0;  ///< bytes of the memory
    std::source_location site{};     ///< where it was asked for; line 0: not known
    bool lists_events = false;       ///< the call there takes events to come after
    /// "'matmul' (cc:0.1#7) reads bytes 0 to 16, asked for at FILE:12".
    [[nodiscard]] std::string to_string() const;
  };
  std::string memory{};   ///< "tensor 'x' f32[4]"
  Use before{}, after{};  ///< in the order in which they were submitted

  /// What gives the order: "submit 'matmul' (cc:0.1#7) with .after = {the event of 'copy'
  /// (cc:0.0#3)}"; where the call takes no events, a wait of its device or, for what the host does
  /// itself, of the host.
  [[nodiscard]] std::string mend() const;
  /// All of it, in lines.
  [[nodiscard]] std::string to_string() const;
};

}  // namespace heddle
#pragma GCC visibility pop
