// Operations in a device's queue: a queued task owns its operation in a std::unique_ptr until the
// task has ended. Stateless; called by the queue.
#pragma once

#include "heddle/status.hpp"
#include "heddle/task.hpp"
#include "runtime/door/submit.hpp"

namespace heddle::rt {

class Queued {
 public:
  static const sched::TaskOps to_the_end;  ///< the task ends when run() returns
  /// the task ends when its work issued to the hardware queue has ended
  static const sched::TaskOps ahead;

 private:
  static Operation& of(void* callable) noexcept;
  static void construct(void* to, void* from) noexcept;
  static void destroy(void* callable) noexcept;
  static void pass_over(void* callable) noexcept;
  static Status zero(const Operation& operation, const Operation::Fresh& fresh) noexcept;
  static Status run_after_zeros(Operation& operation);
  /// Called after a failure of run_after_zeros(). Zeroes fresh memory (memory whose first use is
  /// this task) that has no zeros yet, and that the operation may have left unwritten.
  static void zero_rest(const Operation& operation) noexcept;
  static Status begin(Operation& operation);
  static bool run(void* callable, Status& failure);
  /// The task ends when the issued work has ended, on success and on failure.
  static bool issue(void* callable, Status& failure);
  static Status finish(void* callable, Status reported) noexcept;
};

}  // namespace heddle::rt
