// The threads of a group, as fibers of one thread, which meet at barriers. One thread.
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

  /// Each thread of it, up to its end. The first result that is not 0; or launch_failed,
  /// where threads wait at different barriers, or some of them where others have ended, or memory
  /// that they share is written by one and touched by another without a barrier in between.
  int run(StandinKernel kernel, const std::uint64_t* words, unsigned group, unsigned groups,
          unsigned threads);
  /// What went wrong.
  [[nodiscard]] const std::string& fault() const noexcept { return fault_; }

 private:
  struct Thread {
    std::shared_ptr<sched::Fiber> fiber;
    Place place{};
    unsigned line = 0;
    int vote = 0;
    int result = 0;
    bool ended = false;
  };
  int wait_here(unsigned line, int vote);
  void go_on(Thread& thread, bool begins);
  bool meet();

  StandinKernel kernel_ = nullptr;
  const std::uint64_t* words_ = nullptr;
  std::vector<Thread> threads_;
  Thread* now_ = nullptr;
  int votes_ = 0;
  std::string fault_;
};

}  // namespace heddle::cuda_standin
