// A launch's read of the merge buffer of its device. Owned by one launch; not synchronised.
#pragma once

#include <memory>
#include <optional>

#include "heddle/code.hpp"
#include "heddle/kernel.h"
#include "runtime/device/execution.hpp"
#include "runtime/device/route.hpp"
#include "runtime/door/submit.hpp"

namespace heddle::rt {

/// The source of a launch's merge entry; filled in when the launch is submitted.
struct MergeRead {
  std::shared_ptr<Load> load;  ///< the load that is read; null: part of merge()
  std::optional<Move> move;    ///< done before the launch
  heddle_kernel_buffer buffer{};
  Accesses accesses;  ///< accesses of the launch and of its merge source

  /// Resets for another launch, and keeps the capacity.
  void clear() noexcept;

  /// Called in the task, before the kernels. In a task of the host, the load has ended by now,
  /// perhaps with a failure. failed_precondition if the load did not run.
  [[nodiscard]] Status prepare(Execution& execution, const Code& consumer) const;
  /// Called at the end if the queue ran ahead: the load may have failed in the meantime.
  [[nodiscard]] Status ended(const Execution& execution, const Code& consumer) const noexcept;

 private:
  [[nodiscard]] Status not_loaded(const Execution& execution, const Code& consumer) const noexcept;
};

}  // namespace heddle::rt
