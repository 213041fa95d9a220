// Operations as the queue of a device holds them: each in a std::unique_ptr, until its task ended.
#pragma once

#include "heddle/status.hpp"
#include "heddle/task.hpp"
#include "runtime/door/submit.hpp"

namespace heddle::rt {

class Queued {
 public:
  static const sched::TaskOps to_the_end;  ///< ends as it ran
  static const sched::TaskOps ahead;       ///< ends once all that it asked of its queue has ended

 private:
  static Operation& of(void* callable) noexcept;
  static void construct(void* to, void* from) noexcept;
  static void destroy(void* callable) noexcept;
  static void pass_over(void* callable) noexcept;
  static Status zero(const Operation& operation, const Operation::Fresh& fresh) noexcept;
  static Status run_after_zeros(Operation& operation);
  /// What it did not overwrite after all, as if it had not begun; or zeros are what failed.
  static void zero_rest(const Operation& operation) noexcept;
  static Status begin(Operation& operation);
  static bool run(void* callable, Status& failure);
  /// It ends once what it asked for has ended, however this goes.
  static bool issue(void* callable, Status& failure);
  static Status finish(void* callable, Status reported) noexcept;
};

}  // namespace heddle::rt
