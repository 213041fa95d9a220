// Values that move from device to device, against one thread, or two, with the same bytes: copies,
// sums with streamed values, and sums over several devices.
#include <fmt/format.h>

#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "heddle/replay.hpp"
#include "heddle/routine.hpp"
#include "heddle/status.hpp"
#include "tools/bench/cases.hpp"
#include "tools/bench/compiled_kernel.hpp"
#include "tools/bench/limit_kernels.hpp"
#include "tools/bench/subject.hpp"
#include "tools/bench/workers.hpp"

namespace heddle::bench {
namespace {

constexpr std::size_t together = 16;  // between two waits

/// One tensor in the memory of two devices, one of which the worker's processor runs.
class TwoDevices {
 public:
  explicit TwoDevices(std::size_t bytes)
      : tensor_("t", f32, {static_cast<std::int64_t>(bytes / sizeof(float))}) {
    const Unpinned while_starting;
    const Backend backend = open_on_worker();
    for (std::optional<Context>* const each : {&from_, &to_}) {
      const Context empty(backend.physical_device(0).new_virtual_device());
      each->emplace(empty.with(
          tensor_, BufferView(Buffer::allocate(empty.device(), tensor_.type()), tensor_.type())));
      (*each)->write(tensor_, std::vector<float>(bytes / sizeof(float), 1e-9F));
    }
    const Index i;
    Program program("sum");
    program << (tensor_(i) += merge(tensor_)(i));
    sum_.emplace(to_->link(backend.compile(program)));
  }

  void copy() { heddle::copy(tensor_, *from_, *to_); }
  void add() { merge(*sum_, *from_, MergeMode::stream); }
  void add_copy() { merge(*sum_, *from_, MergeMode::copy); }
  double time(nanoseconds length, void (TwoDevices::*operation)()) {
    return timed_loop(length, together, [&](std::size_t count) {
      for (std::size_t k = 0; k < count; ++k) (this->*operation)();
      to_->device().await();
    });
  }

 private:
  Tensor tensor_;
  std::optional<Context> from_, to_;
  std::optional<Routine> sum_;
};

HostArray values_of(std::size_t count) {
  return HostArray::uniform(ArrayType{f32, {static_cast<std::int64_t>(count)}}, 1);
}

/// The same number of bytes moved by one thread, on the processor of the device's worker.
Contender one_thread(
    const char* name, std::size_t bytes,
    const std::function<void(std::size_t count, const float* from, float* to)>& call) {
  const std::size_t count = bytes / sizeof(float);
  const HostArray from = values_of(count), to = values_of(count);
  return {name, Kind::limit, [from, to, count, call](nanoseconds length, Samples&) {
            return timed_on(worker_processor, [&] {
              return timed_loop(length, together, [&](std::size_t calls) {
                for (std::size_t k = 0; k < calls; ++k)
                  call(count, from.values<float>().data(), to.values<float>().data());
              });
            });
          }};
}

void copy_plainly(std::size_t count, const float* from, float* to) {
  std::memcpy(to, from, count * sizeof(float));
  asm volatile("" ::"r"(to) : "memory");  // prevents removal of the stores
}

/// Through memory of its own.
Contender copy_then_add(std::size_t bytes) {
  const HostArray between = values_of(bytes / sizeof(float));
  return one_thread("memcpy, then hand-written loop", bytes,
                    [between](std::size_t count, const float* from, float* to) {
                      float* const copy = between.values<float>().data();
                      copy_plainly(count, from, copy);
                      limit_add(count, copy, to);
                    });
}

/// A tensor in the memory of each of several devices.
class AllReduce {
 public:
  AllReduce(std::size_t parties, std::size_t count) {
    const Unpinned while_starting;
    const Backend backend = open_on_all();
    const Tensor tensor("t", f32, {static_cast<std::int64_t>(count)});
    std::vector<Context> contexts;
    for (std::size_t k = 0; k < parties; ++k) {
      const Context empty(backend.physical_device(0).new_virtual_device());
      contexts.push_back(empty.with(
          tensor, BufferView(Buffer::allocate(empty.device(), tensor.type()), tensor.type())));
      contexts.back().write(tensor, std::vector<float>(count, k == 0 ? 1 : 0));
    }
    Recording recording("all-reduce");
    recording.all_reduce(tensor, contexts);
    replay_.emplace(recording.finish());
  }

  double time(nanoseconds length) {
    return timed_loop(length, together, [&](std::size_t count) {
      for (std::size_t k = 1; k < count; ++k) replay_->run();
      for (const Event& each : replay_->run()) throw_if_failed(each.wait());
    });
  }

 private:
  std::optional<Replay> replay_;
};

/// One thread on each of two processors, each with half of the elements.
Contender two_threads(std::size_t parties, std::size_t count) {
  std::vector<HostArray> arrays;
  for (std::size_t k = 0; k < parties; ++k)
    arrays.push_back(k == 0 ? values_of(count) : HostArray(arrays[0].type()));
  return {"two threads, half each", Kind::limit, [arrays, count](nanoseconds length, Samples&) {
            const auto half = [&](int which) {
              std::vector<float*> parts;
              for (const HostArray& each : arrays)
                parts.push_back(each.values<float>().data() + (which == 0 ? 0 : count / 2));
              return timed_loop(length, together, [&](std::size_t calls) {
                for (std::size_t k = 0; k < calls; ++k) limit_all_reduce(count / 2, parts);
              });
            };
            double other = 0;
            std::thread thread([&] {
              pin_this_thread(worker_processor);
              other = half(1);
            });
            const double own = half(0);
            thread.join();
            return std::max(own, other);
          }};
}

void add_all_reduce_rows(std::vector<Row>& rows, std::size_t parties) {
  constexpr std::size_t count = std::size_t{1} << 20;
  const auto all_reduce = std::make_shared<std::optional<AllReduce>>();
  Contender heddle{"heddle", Kind::heddle,
                   [all_reduce, parties, count](nanoseconds length, Samples&) {
                     if (!*all_reduce) all_reduce->emplace(parties, count);
                     return (*all_reduce)->time(length);
                   }};
  rows.push_back(Case{"all-reduce", fmt::format("all-reduce, 4 MiB, {} devices", parties), "run",
                      std::move(heddle), two_threads(parties, count)});
}

}  // namespace

void add_move_rows(std::vector<Row>& rows) {
  struct Size {
    const char* name;
    std::size_t bytes;
  };
  for (const Size& size :
       {Size{"128 KiB", std::size_t{128} << 10}, Size{"16 MiB", std::size_t{16} << 20}}) {
    const auto devices = std::make_shared<std::optional<TwoDevices>>();
    const auto heddle = [&](void (TwoDevices::*operation)()) {
      return Contender{"heddle", Kind::heddle,
                       [devices, bytes = size.bytes, operation](nanoseconds length, Samples&) {
                         if (!*devices) devices->emplace(bytes);
                         return (*devices)->time(length, operation);
                       }};
    };
    rows.push_back(Case{"move", fmt::format("copy to another device, {}", size.name), "copy",
                        heddle(&TwoDevices::copy),
                        one_thread("memcpy", size.bytes, &copy_plainly)});
    rows.push_back(Case{"move", fmt::format("a += merge(b), streamed, {}", size.name), "sum",
                        heddle(&TwoDevices::add),
                        one_thread(hand_written, size.bytes, &limit_add)});
    rows.push_back(Case{"move", fmt::format("a += merge(b), copied, {}", size.name), "sum",
                        heddle(&TwoDevices::add_copy), copy_then_add(size.bytes)});
  }
}

void add_all_reduce_rows(std::vector<Row>& rows) {
  for (const std::size_t parties : {2, 4, 8}) add_all_reduce_rows(rows, parties);
}

}  // namespace heddle::bench
