// Running the steps of a routine, in order, in its task. One thread at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <span>
#include <stop_token>
#include <vector>

#include "runtime/launch/loaded.hpp"
#include "runtime/launch/merge_read.hpp"

namespace heddle::rt {

/// What a run was given when it was scheduled, and is kept until that has ended.
struct RunInputs {
  std::span<const std::int64_t> statics;
  const MergeRead* merge;  ///< null: the code reads no merge buffer
  const std::function<void(const TracedValue&)>& trace;
};

/// Whether the host's code runs in it: a step that calls it, or a trace.
[[nodiscard]] bool host_takes_part(const Loaded& loaded, const RunInputs& inputs);

/// One run of code that is a single kernel, with its memory.
[[nodiscard]] Status run_single(Execution& execution, const Loaded& loaded,
                                std::span<const heddle_kernel_buffer> buffers,
                                std::span<const std::int64_t> statics);

/// One run of a routine, or of what an executor compiled. Kernels use it until they have ended.
class Run {
 public:
  /// What a kernel is given beside what was linked, and says.
  struct Called {
    std::vector<heddle_kernel_buffer> merged{};
    std::vector<std::int64_t> some{};
    heddle_kernel_status said{};
  };
  /// Room for that, for one run after the other.
  struct Room {
    Called called;                  // the kernel that runs
    std::vector<Called> in_flight;  // or all, where they run ahead
  };

  Run(Execution& execution, const Loaded& loaded, const Tables& tables, const RunInputs& inputs,
      Room& room);
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  /// Asks the device's queue for each step, in order; each is done before the next where the queue
  /// does not run ahead or the host takes part. The first step that fails is the last. Rethrows
  /// what the trace hook threw.
  [[nodiscard]] Status all();
  /// Where the queue ran ahead, and ended all that like this: how it went.
  [[nodiscard]] Status ended(Status status) const noexcept;

 private:
  struct Trace {
    const std::function<void(const TracedValue&)>* sink;
    const jit::CodeData* code;
    const std::vector<std::uint32_t>* entries;  // those of the kernel that runs
    std::exception_ptr thrown{};
  };
  struct Raise {
    std::uint32_t& stop;
    void operator()() const noexcept {
      // relaxed: pairs with the kernel's load, and orders nothing.
      std::atomic_ref<std::uint32_t>(stop).store(1, std::memory_order_relaxed);
    }
  };

  static void trace_value(void* context, std::uint32_t statement, std::uint32_t entry,
                          std::int64_t offset, double before, double after);
  Status one(const jit::KernelStep& kernel, const LoadedStep& step);
  Status one(const jit::CopyStep& copy, const LoadedStep& step);
  Status one(const jit::ZeroStep& zero, const LoadedStep& step);
  Status one(const jit::MergeStep& merge, const LoadedStep& step);
  Status one(const jit::CallStep& call, const LoadedStep& step);
  Status done(Status status);
  [[nodiscard]] Called& next_call();
  [[nodiscard]] heddle_kernel_buffer buffer(std::uint32_t entry) const;
  [[nodiscard]] const heddle_kernel_buffer* buffers(const jit::KernelStep& kernel,
                                                    const LoadedStep& step, Called& called) const;
  [[nodiscard]] std::span<const std::int64_t> statics(const jit::KernelStep& kernel,
                                                      Called& called) const;

  Execution& execution_;
  const Loaded& loaded_;
  const Tables& tables_;
  const RunInputs inputs_;
  dev::Queue& queue_;
  const bool ahead_;  // what is asked for need not be done before the next
  Trace trace_;
  Room& room_;
  std::size_t called_ = 0;  // kernels so far
  alignas(std::atomic_ref<std::uint32_t>::required_alignment) std::uint32_t stop_ = 0;
  std::optional<std::stop_callback<Raise>> when_stopped_;
};

}  // namespace heddle::rt
