// Registers the asynchronous backend before the suites ask for their backends (S23, D11).
#include "tests/support/asynchronous_device.hpp"

namespace heddle {
namespace {

[[maybe_unused]] const bool registered = [] {
  register_asynchronous("asynchronous");
  register_asynchronous("pooled_asynchronous", {}, sched::Mode::pooled);
  // Must be requested by name:
  register_asynchronous("asynchronous_cc", {.in_host_memory = true});
  register_asynchronous("sync_asynchronous", {}, sched::Mode::inline_);
  return true;
}();

}  // namespace
}  // namespace heddle
