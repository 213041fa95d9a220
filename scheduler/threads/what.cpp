// See what.hpp.
#include "scheduler/threads/what.hpp"

namespace heddle::sched {

Status failure_of_thrown() noexcept {
  Status failure;
  try {
    throw;
  } catch (const Error& e) {
    failure = e.status();
  } catch (const std::exception& e) {
    failure = Status(ErrorCode::device_failed, [&] { return what_of(e); });
  } catch (...) {
    failure = Status(ErrorCode::device_failed, "threw something that is no std::exception");
  }
  if (failure.ok()) failure = Status(ErrorCode::device_failed, "threw an Error without a failure");
  return failure.with_exception(std::current_exception());
}

}  // namespace heddle::sched
