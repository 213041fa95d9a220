// Runs the steps of a routine, in order, in the routine's task. One thread at a time.
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

/// Inputs of a run, from scheduling until the run has ended.
struct RunInputs {
  std::span<const std::int64_t> statics;
  const MergeRead* merge;  ///< null: the code reads no merge buffer
  const std::function<void(const TracedValue&)>& trace;
};

/// True if host code runs in the task: a step that calls the host, or a trace.
[[nodiscard]] bool host_takes_part(const Loaded& loaded, const RunInputs& inputs);

/// Runs code that is a single kernel. `buffers`: Tables::of_single().
[[nodiscard]] Status run_single(Execution& execution, const Loaded& loaded,
                                const heddle_kernel_buffer* buffers,
                                std::span<const std::int64_t> statics);

/// One run of a routine, or of an executor's code. Outlives the run's kernels.
class Run {
 public:
  /// Inputs of a kernel beside its linked buffers, and the kernel's status.
  struct Called {
    std::vector<heddle_kernel_buffer> merged{};
    std::vector<std::int64_t> some{};
    heddle_kernel_status said{};
  };
  /// Storage for Called, reused by later runs.
  struct Room {
    Called called;                  // the running kernel
    std::vector<Called> in_flight;  // every kernel of the run, if the queue runs ahead
  };

  Run(Execution& execution, const Loaded& loaded, const Tables& tables, const RunInputs& inputs,
      Room& room);
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  /// Issues the steps to the device's queue, in order. Waits for a step before the next, unless the
  /// queue runs ahead and no host code takes part. Stops at the first failure. Rethrows an
  /// exception of the trace hook.
  [[nodiscard]] Status all();
  /// Called when the queue ran ahead and its work ended with `status`. Returns the run's end, with
  /// the kernels' codes.
  [[nodiscard]] Status ended(Status status) const noexcept;

 private:
  struct Trace {
    const std::function<void(const TracedValue&)>* sink;
    const jit::CodeData* code;
    const std::vector<std::uint32_t>* entries;  // entries of the running kernel
    std::exception_ptr thrown{};
  };
  struct Raise {
    std::uint32_t& stop;
    void operator()() const noexcept {
      // relaxed: pairs with the kernel's load; orders no other access.
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
  const bool ahead_;  // steps are issued without waiting for the previous step
  Trace trace_;
  Room& room_;
  std::size_t called_ = 0;  // number of kernels issued so far
  alignas(std::atomic_ref<std::uint32_t>::required_alignment) std::uint32_t stop_ = 0;
  std::optional<std::stop_callback<Raise>> when_stopped_;
};

}  // namespace heddle::rt
