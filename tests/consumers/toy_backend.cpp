// A backend from outside: registered, opened by name, runs a program in memory of its own, and
// hands a tensor to another backend through the host. Exits with 1 when a promise does not hold.
#include <heddle/heddle.hpp>

#include <cstdio>
#include <exception>

#include "toy_device.hpp"

using namespace heddle;

namespace {

bool require(bool holds, const char* what) {
  if (!holds) std::fprintf(stderr, "toy_backend: %s\n", what);
  return holds;
}

bool refuses_second_registration() {
  try {
    toy::register_toy();
  } catch (const Error& e) {
    return e.status().code() == ErrorCode::invalid_argument;
  }
  return false;
}

int run() {
  toy::register_toy();
  if (!require(refuses_second_registration(), "a second 'toy' was accepted")) return 1;

  const auto backend = Backend::open("TOY");
  const auto device = backend.physical_device(0).new_virtual_device();
  const Tensor x("x", f32, {4}), y("y", f32, {4});
  Index i;
  Program scale("scale");
  scale << (y(i) = x(i) * 3.0 + 1.0);
  const Routine routine = Context(device).link(backend.compile(scale));
  routine.context().write(x, std::vector<float>{1, 2, 3, 4});
  const Event computed = routine.schedule();
  const std::vector<float> expected{4, 7, 10, 13};
  if (!require(routine.context().read<float>(y) == expected, "wrong numbers")) return 1;
  if (!require(toy::operations().launches == 1, "the kernel ran elsewhere")) return 1;
  if (!require(toy::operations().loads == 1, "the kernel was loaded elsewhere")) return 1;
  if (!require(toy::operations().to_device >= 1, "x was not sent to the device")) return 1;

  // Copies to a second backend and back into a merge buffer: staged, in both directions.
  const auto host_backend = Backend::open("cc");
  const auto other = host_backend.physical_device(0).new_virtual_device();
  Program twice("twice");
  twice << (y(i) *= 2.0);
  const Routine second = Context(other).link(host_backend.compile(twice));
  TransferOptions after_compute;
  after_compute.after = {computed};
  const Transfer moved = copy(y, routine.context(), second.context(), after_compute);
  if (!require(moved.outcome == TransferOutcome::scheduled, "the copy was not scheduled")) return 1;
  const Event doubled = second.schedule();
  if (!require(second.context().read<float>(y) == std::vector<float>{8, 14, 20, 26},
               "wrong numbers after the copy to cc"))
    return 1;

  Program add("add");
  add << (y(i) += merge(y)(i));
  const Routine third = routine.context().link(backend.compile(add));
  TransferOptions after_double;
  after_double.after = {doubled};
  const Transfer merged = load_merge(third, second.context(), MergeMode::stream, after_double);
  if (!require(merged.outcome == TransferOutcome::copied, "no memory is shared, yet it streamed"))
    return 1;
  third.schedule();
  if (!require(third.context().read<float>(y) == std::vector<float>{12, 21, 30, 39},
               "wrong numbers after the merge from cc"))
    return 1;
  std::puts("toy_backend: ok");
  return 0;
}

}  // namespace

int main() {
  try {
    return run();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "toy_backend: %s\n", e.what());
    return 1;
  }
}
