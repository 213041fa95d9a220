// The widely used rival: oneTBB, task_arena::enqueue, documented for tasks that the submitting
// thread does not wait for.
#include "tools/bench/rival_tbb.hpp"
#include "tools/bench/worker_rival.hpp"

namespace heddle::bench {
namespace {

class TbbWorker {
 public:
  static constexpr const char* name = "oneTBB task_arena::enqueue";
  static constexpr Kind kind = Kind::rival;

  explicit TbbWorker(int k) : arena_(k) {}
  TbbWorker(const TbbWorker&) = delete;
  TbbWorker& operator=(const TbbWorker&) = delete;

  /// Any thread.
  template <class F>
  void submit(F f) {
    arena_.enqueue([this, f] {
      f();
      ended_.add();
    });
  }
  void wait_ended(std::uint64_t count) const { ended_.wait(count); }

 private:
  EndedCount ended_;
  TbbArena arena_;
};

}  // namespace

Rival tbb_arena_rival() {
  Rival rival = worker_rival<TbbWorker>();
  rival.fan = {};   // measured by the flow graph
  rival.open = {};  // oneTBB's threads outlive arenas
  return rival;
}

}  // namespace heddle::bench
