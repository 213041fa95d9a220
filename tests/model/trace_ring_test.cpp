// The ring of a trace: no record is overwritten, and records are read completely written, and in
// order.
#include "scheduler/protocol/trace_ring.hpp"
#include "tests/model/explore.hpp"

namespace heddle::model {
namespace {

/// Reading a record while it is written is an error.
struct Record {
  Record() = default;
  explicit Record(unsigned n) { number($) = n; }
  Record(const Record&) = delete;
  Record& operator=(const Record& other) {
    number($) = other.get();
    return *this;
  }
  [[nodiscard]] unsigned get() const { return number($); }

  rl::var<unsigned> number;
};

constexpr unsigned writes = 4;

/// Thread 0 writes more records than the ring holds; thread 1 reads meanwhile, and once more after
/// the end. With `writers` 2, a third thread writes too, in violation of the contract.
template <Mutation mutation, unsigned writers = 1>
struct WriteAgainstRead : rl::test_suite<WriteAgainstRead<mutation, writers>, writers + 1> {
  std::optional<sched::TraceRing<Record, Env<mutation>>> ring;
  Flag ended;
  unsigned last = 0, seen = 0;

  void before() { ring.emplace(2); }
  void thread(unsigned index) {
    if (index == 1) return read();
    for (unsigned k = 1; k <= writes; ++k) ring->write(Record(k));
    ended.raise();
  }
  void read() {
    const auto take = [this](const Record& record) {
      const unsigned number = record.get();
      RL_ASSERT(number > last);
      last = number;
      ++seen;
    };
    ring->read(take);
    ended.wait();
    ring->read(take);
    RL_ASSERT(seen + ring->dropped() == writes);
    RL_ASSERT(seen >= 2);
  }
  void after() { ring.reset(); }
};

// S17: traces drop, and never tear
TEST(ModelTest, TraceRingBetweenWriterAndReader) {
  expect_holds<WriteAgainstRead<Mutation::none>>();
}

TEST(ModelTest, TraceRingMutantsAreCaught) {
  expect_caught<WriteAgainstRead<Mutation::no_release>>();
  expect_caught<WriteAgainstRead<Mutation::no_acquire>>();
  expect_caught<WriteAgainstRead<Mutation::none, 2>>();
}

}  // namespace
}  // namespace heddle::model
