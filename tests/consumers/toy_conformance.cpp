// Registers the toy backend before GoogleTest starts: the conformance suites, linked to this file,
// run on the toy backend (HEDDLE_TEST_BACKENDS=toy).
#include <cstdio>
#include <exception>

#include "toy_device.hpp"

namespace {

[[maybe_unused]] const bool registered = [] {
  try {
    toy::register_toy();
    return true;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "toy_conformance: %s\n", e.what());
    return false;
  }
}();

}  // namespace
