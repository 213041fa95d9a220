// See runtime/launch/merge_read.hpp.
#include "runtime/launch/merge_read.hpp"

#include <fmt/format.h>

#include "heddle/status.hpp"
#include "scheduler/device/timeline.hpp"

namespace heddle::rt {

void MergeRead::clear() noexcept {
  load.reset();
  move.reset();
  accesses.clear();
}

Status MergeRead::not_loaded(const Execution& execution, const Code& consumer) const noexcept {
  return Status(ErrorCode::failed_precondition, [&] {
    return fmt::format(
        "routine '{}' merges tensor '{}', but the task that loads it into the merge "
        "buffer of {} did not run; load it again",
        consumer.name(), load->tensor.label(), execution.name);
  });
}

Status MergeRead::ended(const Execution& execution, const Code& consumer) const noexcept {
  const bool well =
      !load || (ended_well(load->event) && (!load->before || ended_well(*load->before)));
  return well ? Status() : not_loaded(execution, consumer);
}

Status MergeRead::prepare(Execution& execution, const Code& consumer) const {
  if (load &&
      (!load->filled || ended_badly(load->event) || (load->before && ended_badly(*load->before))))
    return not_loaded(execution, consumer);
  if (move) {
    if (Status status = move->run(); !status.ok()) return status;
    Execution::count(execution.merges_copied);
  } else if (!load) {
    Execution::count(execution.merges_streamed);
  }
  return {};
}

}  // namespace heddle::rt
