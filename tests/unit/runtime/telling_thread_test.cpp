// Callbacks on the thread that tells what ends on a completion domain: nothing there waits, as the
// domain would wait with it.
#include <chrono>
#include <cstddef>
#include <future>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/before_long.hpp"
#include "tests/support/failure.hpp"
#include "tests/support/threads.hpp"
#include "tests/unit/runtime/asynchronous_fixture.hpp"

namespace heddle {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;

class TellingThreadTest : public AsynchronousFixture {
 protected:
  TellingThreadTest() {
    // First uses begin with zeros; from here on each write is one operation.
    write(here, values);
    put_there();
    device.await();
    other->await();
  }
  /// What `callback` gives, called there while the other device has work behind a gate.
  template <class F>
  auto in_callback(F callback) {
    physical->hold();
    const Event first = write_and_go_on(1);
    std::promise<decltype(callback())> told;
    first.then([&](const Status&) { told.set_value(callback()); });
    physical->resume();
    return told.get_future().get();
  }
  /// It is the `nth` operation that is pending; its worker is done with it, so another thread ends
  /// it.
  Event write_and_go_on(std::size_t nth) {
    const Event first = write(here, values);
    write(here, values);
    wait_until_asked(nth + 1);
    return first;
  }
  Event put_there() { return there.from_host(*other, std::as_bytes(std::span(values))); }
  Event put_behind_gate() {
    other->wait(gate.next());
    return put_there();
  }

  // Writes that no test awaits read them until the engine ends, which is after the test.
  static inline const std::vector<float> values{1, 1, 1, 1};
  std::optional<Device> other{backend.physical_device(0).new_virtual_device()};
  const BufferView here = new_view();
  const BufferView there{Buffer::allocate(*other, type), type};
  sched::ExternalTimeline gate{"gate"};
};

// S16: a callback on the thread that tells what ends may not wait for another device of its domain,
// whose end that would tell; it is refused, and nothing hangs
TEST_F(TellingThreadTest, CallbacksMayNotWaitForTheirDomain) {
  physical->hold();
  const Event later = put_there();
  wait_until_asked(1);
  const Event first = write_and_go_on(2);
  std::promise<std::vector<Status>> told;
  first.then([&](const Status&) {
    std::vector<Status> found{later.wait_for(10s)};
    if (found[0].code() == ErrorCode::failed_precondition)
      found.insert(found.end(), {later.wait(), other->timeline().await()});
    told.set_value(std::move(found));
  });
  physical->resume_last();
  const std::vector<Status> found = told.get_future().get();
  EXPECT_EQ(found.size(), 3u);
  for (const Status& status : found) {
    EXPECT_EQ(status.code(), ErrorCode::failed_precondition);
    EXPECT_THAT(status.to_string(), HasSubstr("executor"));
  }
  physical->resume();
  EXPECT_TRUE(later.wait().ok());  // here it may
}

// S16: nor for what ends after such an end: here, of a move by a queue of the domain
TEST_F(TellingThreadTest, CallbacksWaitForNothingElseEither) {
  const Backend cc = Backend::open("cc");
  const Device host = cc.physical_device(0).new_virtual_device();
  const BufferView fetched(Buffer::allocate(host, type), type);
  host.await();
  Event moved;
  const Status status = in_callback([&] {
    moved = fetched.copy_from(host, here);
    return moved.wait();
  });
  EXPECT_EQ(status.code(), ErrorCode::failed_precondition);
  EXPECT_THAT(status.to_string(), HasSubstr("executor"));
  EXPECT_TRUE(moved.wait().ok());
}

// S16, D4: nor do accesses of the host, which would leave a task with memory that is gone
TEST_F(TellingThreadTest, AccessesOfTheHostAreRefused) {
  const Context context = Context(*other).with(x, there);
  const std::uint64_t before = other->timeline().counters().submitted;
  const auto refused = in_callback([&] {
    return std::vector{failure([&] { static_cast<void>(context.read<float>(x)); }),
                       failure([&] { context.write(x, values); })};
  });
  for (const Status& status : refused) {
    EXPECT_EQ(status.code(), ErrorCode::failed_precondition);
    EXPECT_THAT(status.to_string(), AllOf(HasSubstr("'x'"), HasSubstr("executor")));
  }
  EXPECT_EQ(other->timeline().counters().submitted, before);
}

// S13: a last handle that goes there lets accepted tasks end, and then its thread
TEST_F(TellingThreadTest, LastHandlesMayGo) {
  const LiveThreads threads;
  const Event queued = put_behind_gate();
  EXPECT_TRUE(in_callback([&] {
    other.reset();
    return true;
  }));
  EXPECT_TRUE(gate.signal(1).ok());
  EXPECT_TRUE(queued.wait().ok()) << queued.status().to_string();
  EXPECT_TRUE(test::before_long([&] { return threads.ended() >= 1; }));
}

// S13: a shutdown is refused there, and cancels nothing
TEST_F(TellingThreadTest, ShutdownsAreRefused) {
  const Event queued = put_behind_gate();
  const Status status = in_callback([&] { return other->timeline().shutdown(30s); });
  EXPECT_EQ(status.code(), ErrorCode::failed_precondition);
  EXPECT_THAT(status.to_string(), AllOf(HasSubstr("shutdown"), HasSubstr("another thread")));
  EXPECT_TRUE(gate.signal(1).ok());
  EXPECT_TRUE(queued.wait().ok()) << queued.status().to_string();
}

// S4: a callback waits for no room in a queue, and is told so
TEST_F(TellingThreadTest, FullQueuesAreToldOf) {
  other->wait(gate.next());
  sched::SubmitOptions at_once;
  at_once.full = sched::FullPolicy::fail;
  while (other->timeline().submit("fill", [] {}, at_once).accepted()) {
  }
  const Status status =
      in_callback([&] { return other->timeline().submit("more", [] {}).status(); });
  EXPECT_EQ(status.code(), ErrorCode::exhausted);
  EXPECT_THAT(status.to_string(), HasSubstr("callback"));
  EXPECT_TRUE(gate.signal(1).ok());
}

// S16: a compile there does all its work itself, as it could not wait for others
TEST_F(TellingThreadTest, CompilesWorkAlone) {
  BackendOptions options;
  options.name = "cc";
  options.cache = false;
  const Backend cc = Backend::open(options);
  const Tensor y("y", f32, {4});
  std::vector<Program> programs;  // several units
  const Index i;
  for (int k = 0; k < 12; ++k) {
    programs.emplace_back("p" + std::to_string(k));
    programs.back() << (y(i) = x(i) + k);
  }
  std::set<std::thread::id> threads;
  BatchOptions batch_options;
  batch_options.progress = [&](const CompileProgress&) {
    threads.insert(std::this_thread::get_id());
  };
  const CodeBatch batch = in_callback([&] { return cc.compile_batch(programs, batch_options); });
  EXPECT_EQ(threads.size(), 1u);
  for (const auto& code : batch) EXPECT_TRUE(code.has_value());
}

}  // namespace
}  // namespace heddle
