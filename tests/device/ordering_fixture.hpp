// Two devices over one memory, with a gate to block a device.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tests/device/backends.hpp"

namespace heddle {

/// Work on two devices over one memory. Tests block the first device: later work on the second
/// device gives correct values only by waiting.
class OrderingTest : public Conformance {
 protected:
  OrderingTest() {
    device.await();
    other.await();
  }
  /// A buffer that was used before, which excludes zeroing from the test.
  Buffer used_buffer(const Device& on) const { return used_buffer(on, t.type()); }
  static Buffer used_buffer(const Device& on, const ArrayType& type) {
    const std::vector<float> zeros(static_cast<std::size_t>(*type.num_elements()));
    Buffer made = Buffer::allocate(on, type);
    EXPECT_TRUE(whole(made, type).from_host(on, std::as_bytes(std::span(zeros))).wait().ok());
    return made;
  }
  static BufferView whole(const Buffer& of, const ArrayType& type) { return {of, type}; }
  Routine filler(const Device& on, const BufferView& at, double value) const {
    Program p("fill");
    Index i;
    p << (t(i) = Expr(value));
    return Context(on).with(t, at).link(backend.compile(p));
  }
  Routine adder(const Device& on, const BufferView& at, double value) const {
    Program p("add");
    Index i;
    p << (t(i) += value);
    return Context(on).with(t, at).link(backend.compile(p));
  }
  void hold(const Device& held) { held.wait(gate.next()); }
  void go_on() { EXPECT_TRUE(gate.signal(++opened).ok()); }
  std::vector<float> read(const Device& by, const BufferView& at) const {
    std::vector<float> values(4);
    throw_if_failed(at.to_host(by, std::as_writable_bytes(std::span(values))).wait());
    return values;
  }

  const Device other = backend.physical_device(0).new_virtual_device();
  const Tensor t{"t", f32, {4}};
  const Buffer buffer = used_buffer(device);
  const BufferView view = whole(buffer, t.type());
  sched::ExternalTimeline gate{"gate"};
  std::uint64_t opened = 0;
};

}  // namespace heddle
