// The threads of a group, run as fibers of one thread, with barriers between them. One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "scheduler/threads/fiber.hpp"
#include "tests/cuda_standin/standin.hpp"

namespace heddle::cuda_standin {

inline constexpr int launch_failed = 719;

class Group : public Meeting {
 public:
  Group();

  /// Runs every thread to its end. Returns the first result that is not 0; or launch_failed, where
  /// threads wait at different barriers, where some threads wait and the rest have ended, or where
  /// one thread writes shared memory and a second thread touches the same memory without a barrier
  /// between.
  int run(StandinKernel kernel, const std::uint64_t* words, unsigned group, unsigned groups,
          unsigned threads);
  /// Text of the error.
  [[nodiscard]] const std::string& fault() const noexcept { return fault_; }

 private:
  struct Thread {
    std::shared_ptr<sched::Fiber> fiber;
    Place place{};
    unsigned line = 0;
    bool in_warp = false;  ///< waits for its warp alone
    int vote = 0;
    int result = 0;
    bool ended = false;
  };
  int wait_here(unsigned line, int vote, bool in_warp);
  void go_on(Thread& thread, bool begins);
  /// Accuses the threads from `begin` to `end` if they do not all wait at the same barrier.
  void require_same(std::size_t begin, std::size_t end);
  void meet();
  /// Lets the warps go on whose threads wait for their warp. Returns false if there are none.
  bool meet_in_warps();

  StandinKernel kernel_ = nullptr;
  const std::uint64_t* words_ = nullptr;
  std::vector<Thread> threads_;
  Thread* now_ = nullptr;
  int votes_ = 0;
  std::string fault_;
};

}  // namespace heddle::cuda_standin
