// Shared by the conformance suites: the backends under test, and helpers for failures.
// HEDDLE_TEST_BACKENDS names the backends to test, separated by commas; unset: CPU rows, and the
// asynchronous backend, threaded and pooled (tests/support/asynchronous_device.hpp).
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "heddle/heddle.hpp"

namespace heddle {

inline std::vector<std::string> backends_under_test() {
  const char* const asked = std::getenv("HEDDLE_TEST_BACKENDS");
  if (asked == nullptr)
    return {"cc",        "gccjit",        "sync_cc",      "sync_gccjit",
            "pooled_cc", "pooled_gccjit", "asynchronous", "pooled_asynchronous"};
  std::vector<std::string> names;
  std::string rest = asked;
  for (std::size_t comma = 0; comma != std::string::npos;) {
    comma = rest.find(',');
    names.push_back(rest.substr(0, comma));
    if (comma != std::string::npos) rest = rest.substr(comma + 1);
  }
  return names;
}

/// True where a backend's device memory is host memory. External devices may have separate memory.
inline bool is_cpu_row(const std::string& name) {
  return name.ends_with("cc") || name.ends_with("gccjit");
}

/// An open backend and one of its devices.
class Conformance : public testing::TestWithParam<std::string> {
 protected:
  Conformance()
      : backend(Backend::open(GetParam())),
        device(backend.physical_device(0).new_virtual_device()) {}
  Backend backend;
  Device device;
};

template <class F>
Status failure(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.status();
  }
  return {};
}

inline std::string text(const Status& status) { return status.to_string(); }

}  // namespace heddle

#define HEDDLE_CONFORMANCE_SUITE(suite)                                                         \
  INSTANTIATE_TEST_SUITE_P(Backends, suite, testing::ValuesIn(::heddle::backends_under_test()), \
                           [](const auto& backend) { return backend.param; })
