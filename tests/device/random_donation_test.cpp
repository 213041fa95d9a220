// Random donation by several threads.
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "tests/device/backends.hpp"

namespace heddle {
namespace {

using testing::Each;

const ArrayType small_type{f32, {64}};

BufferView whole(const Buffer& buffer) { return BufferView(buffer, small_type); }

/// A buffer that threads use, and donate among themselves.
class Shared {
 public:
  void put(Buffer buffer) {
    const std::lock_guard lock(mutex_);
    buffer_ = std::move(buffer);
  }
  [[nodiscard]] Buffer get() {
    const std::lock_guard lock(mutex_);
    return *buffer_;
  }

 private:
  std::mutex mutex_;
  std::optional<Buffer> buffer_;
};

class RandomDonationTest : public Conformance {
 protected:
  RandomDonationTest() {
    for (Shared& each : shared) each.put(Buffer::allocate(device, small_type).donate());
  }

  /// The body of a thread.
  void use_and_donate(unsigned seed) {
    std::mt19937 random(seed);
    const Device mine = backend.physical_device(0).new_virtual_device();
    std::vector<std::pair<Event, std::shared_ptr<std::vector<float>>>> reads;
    for (int round = 0; round < 150; ++round) {
      Shared& at = shared[random() % shared.size()];
      Shared& from = shared[random() % shared.size()];
      const auto values = std::make_shared<std::vector<float>>(64, static_cast<float>(seed));
      const auto bytes = std::as_writable_bytes(std::span(*values));
      // The new owner changes the values and donates the buffer: later reads come after the change.
      const Status status = failure([&] {
        switch (random() % 4) {
          case 0: {
            const Buffer own = at.get().donate();
            reads.emplace_back(whole(own).from_host(mine, bytes), values);
            at.put(own.donate());
            break;
          }
          case 1: {
            const Buffer source = from.get();
            const Buffer own = Buffer::allocate(mine, small_type);
            whole(own).copy_from(mine, whole(source));
            at.put(own.donate());
            break;
          }
          case 2:
            at.put(Buffer::allocate(mine, small_type).donate());
            break;
          default:
            reads.emplace_back(whole(at.get()).to_host(mine, bytes), values);
        }
        ++uses;
      });
      if (status.ok()) continue;
      EXPECT_EQ(status.code(), ErrorCode::failed_precondition) << text(status);
    }
    for (const auto& [event, values] : reads) {
      EXPECT_TRUE(event.wait().ok()) << text(event.status());
      EXPECT_THAT(*values, Each(values->front()));
    }
    mine.await();
  }

  std::vector<Shared> shared{3};
  std::atomic<int> uses = 0;
};
HEDDLE_CONFORMANCE_SUITE(RandomDonationTest);

// D17, S2: threads that use, copy, donate and drop at random never read foreign or torn values
TEST_P(RandomDonationTest, ThreadsSeeNoForeignValue) {
  {
    std::vector<std::jthread> threads;
    for (unsigned k = 1; k <= 4; ++k) threads.emplace_back([this, k] { use_and_donate(k); });
  }
  EXPECT_GT(uses, 100);
  for (Shared& each : shared) {
    std::vector<float> values(64);
    const auto bytes = std::as_writable_bytes(std::span(values));
    EXPECT_TRUE(whole(each.get()).to_host(device, bytes).wait().ok());
    EXPECT_THAT(values, Each(values.front()));
  }
}

}  // namespace
}  // namespace heddle
