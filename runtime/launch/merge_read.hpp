// How a launch reads what its device's merge buffer holds. One launch's.
#pragma once

#include <memory>
#include <optional>

#include "heddle/code.hpp"
#include "heddle/kernel.h"
#include "runtime/device/execution.hpp"
#include "runtime/device/route.hpp"
#include "runtime/door/submit.hpp"

namespace heddle::rt {

/// How a launch gets its merge entry; filled in when it is submitted.
struct MergeRead {
  std::shared_ptr<Load> load;  ///< that it reads; null: merge() brings it
  std::optional<Move> move;    ///< done before the launch
  heddle_kernel_buffer buffer{};
  Accesses accesses;  ///< those of the launch and of what it merges

  /// For another launch; of this one it keeps nothing but room.
  void clear() noexcept;

  /// In the task. Where that is the host's, the load has ended by now, and may have ended badly.
  [[nodiscard]] Status prepare(Execution& execution, const Code& consumer) const;
  /// Where the queue ran ahead: the load may have ended badly since.
  [[nodiscard]] Status ended(const Execution& execution, const Code& consumer) const noexcept;

 private:
  [[nodiscard]] Status not_loaded(const Execution& execution, const Code& consumer) const noexcept;
};

}  // namespace heddle::rt
