// A plugin that throws and catches heddle errors, and returns the version.
#include <heddle/scheduler.hpp>

extern "C" int plugin_version() {
  heddle::Scheduler scheduler;
  const auto device = scheduler.new_device("plugin");
  try {
    heddle::throw_if_failed(
        device
            .submit("fail",
                    [] { throw heddle::Error(heddle::ErrorCode::unavailable, "on purpose"); })
            .wait());
  } catch (const heddle::Error&) {
    return VERSION;
  }
  return -1;
}
