// Shared by the executor suites: arrays, gates, small functions, and texts of refusals.
#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/device/backends.hpp"

namespace heddle {

class ExecutorsFixture : public Conformance {
 protected:
  using Values = std::vector<float>;
  /// Blocks a device until destroyed.
  struct Gate {
    explicit Gate(const Device& of) : opened(timeline.next()) { of.wait(opened); }
    Gate(const Gate&) = delete;
    Gate& operator=(const Gate&) = delete;
    ~Gate() { open(); }
    void open() { static_cast<void>(timeline.signal(opened.ticket())); }
    sched::ExternalTimeline timeline{"gate"};
    Event opened;
  };
  [[nodiscard]] Array row(const Values& values) const { return Array(device, values); }
  [[nodiscard]] Device another() const { return backend.physical_device(0).new_virtual_device(); }

  [[nodiscard]] Executor<Node (*)(Node)> plus_one(ExecutorOptions options = {.name = "inc"}) const {
    return {device, +[](Node x) { return x + 1; }, std::move(options)};
  }
  [[nodiscard]] Executor<Node (*)(Node, Node)> adder(ExecutorOptions options = {
                                                         .name = "add"}) const {
    return {device, +[](Node x, Node y) { return x + y; }, std::move(options)};
  }
  /// An array f32[2] whose writing task on `on` fails.
  [[nodiscard]] static Array lost(const Device& on) {
    const BufferView view(Buffer::allocate(on, {f32, {2}}), {f32, {2}});
    return Array(on, view, on.submit("sensor", Touches{.writes = {view}}, [] {
      throw std::runtime_error("unplugged");
    }));
  }

  /// Calls `f` with the thread number on `count` threads.
  template <class F>
  static void in_threads(int count, const F& f) {
    std::vector<std::thread> threads;
    for (int t = 0; t < count; ++t) threads.emplace_back([&f, t] { f(t); });
    for (std::thread& thread : threads) thread.join();
  }
  static void wait_until(const std::function<bool()>& there) {
    while (!there()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  /// True where `act` ends within 5 s. Otherwise the thread keeps running.
  static bool ends_soon(std::function<void()> act) {
    std::promise<void> ended;
    const std::future<void> end = ended.get_future();
    std::thread([act = std::move(act), ended = std::move(ended)]() mutable {
      act();
      act = nullptr;
      ended.set_value();
    }).detach();
    return end.wait_for(std::chrono::seconds(5)) == std::future_status::ready;
  }
  /// Returns the text of the error that `act` throws; expects `code`.
  static std::string refusal(ErrorCode code, const std::function<void()>& act) {
    const Status status = failure(act);
    EXPECT_EQ(status.code(), code) << text(status);
    return text(status);
  }
};

}  // namespace heddle
