// Recordings: repeated work on devices, recorded once and submitted as few tasks. Shared handles; a
// move copies the handle, so no handle is ever empty.
#pragma once

#include <cstddef>
#include <memory>
#include <source_location>
#include <span>
#include <string>
#include <vector>

#include "heddle/routine.hpp"

namespace heddle::rt {
class RecordingState;
class ReplayState;
}  // namespace heddle::rt

#pragma GCC visibility push(default)
namespace heddle {

struct ReplayOptions {
  /// Events that the whole run waits for first. If an event failed, the run is skipped whole, and
  /// the devices continue.
  std::vector<Event> after{};
  /// The policy for full queues. Unset: the default of each device's backend.
  std::optional<sched::FullPolicy> full{};
  /// The deadline of FullPolicy::deadline. The policies also apply to the wait for the run's turn:
  /// a run does not wait if a device of the replay has FullPolicy::fail.
  Event::Clock::time_point deadline{};
};

/// The result of Recording::finish(): the recorded work, to be run any number of times. Keeps the
/// routines and the memory of their tensors alive. Thread-safe.
class Replay {
 public:
  Replay(const Replay&) = default;
  Replay& operator=(const Replay&) = default;
  [[nodiscard]] const std::string& name() const noexcept;

  /// Submits the whole recording, with the same results as the recorded calls made one by one. Uses
  /// of one memory inside the recording are ordered as recorded, whatever `Sync` is; the backend's
  /// `Sync` decides the order with other uses. A sequence that a device can run without waiting in
  /// between is one task. Every static index left open in the recording must be bound exactly once,
  /// within its ranges. Returns the event of the last task on each device, in the order of these
  /// tasks. Concurrent runs by several host threads take turns, so runs do not interleave. Runs
  /// inside tasks or callbacks, and other calls, take no turn: their tasks may lie between two
  /// tasks of a run.
  ///
  /// Throws invalid_argument for bindings; failed_precondition if memory of the replay was donated,
  /// if a context, device or backend of the replay was finalised, or if the replay reads values
  /// that were not rewritten after a failure. These errors precede any submission. Also throws if a
  /// queue is full and its policy says so, or if a device fails meanwhile; the message then says
  /// how many of the tasks were submitted. While a run of more than one task is being submitted,
  /// its buffers cannot be donated.
  std::vector<Event> run(BindingsView bindings = {}, const ReplayOptions& options = {},
                         std::source_location where = std::source_location::current()) const;

  [[nodiscard]] std::size_t num_recorded() const noexcept;  ///< routines, copies, merges
  [[nodiscard]] std::size_t num_tasks() const noexcept;     ///< number of tasks per run
  /// The static indices that run() binds, in the order of binding by position.
  [[nodiscard]] std::vector<StaticIndex> statics() const;
  /// A line for every task: device, work, and the tasks to wait for.
  [[nodiscard]] std::string to_string() const;

 private:
  friend struct Inside;
  explicit Replay(std::shared_ptr<const rt::ReplayState> state) noexcept
      : state_(std::move(state)) {}
  std::shared_ptr<const rt::ReplayState> state_;
};

/// Records work instead of running it, in the order of the calls. Thread-safe.
class Recording {
 public:
  explicit Recording(std::string name = "replay");
  Recording(const Recording&) = default;
  Recording& operator=(const Recording&) = default;

  /// Records Routine::schedule(). Static indices may be left open for Replay::run() to bind. Cells
  /// are read by every run. A routine that merges must be recorded by merge(); a routine linked to
  /// take memory (LinkOptions::donate) cannot be recorded. Refused as schedule() is. This call
  /// refuses donated memory and finalised contexts; Replay::run() refuses tensors whose promised
  /// memory has not arrived, and values that were not rewritten after a failure.
  void schedule(const Routine& routine, BindingsView bindings = {});
  void schedule(const Call& call);
  /// Records heddle::copy(); returns nothing_to_do in the same cases. Otherwise the outcome has no
  /// event. Refused as schedule() is.
  Transfer copy(const Tensor& tensor, const Context& source, const Context& destination);
  /// Records heddle::merge(). Refused as schedule() is.
  void merge(const Routine& consumer, const Context& source, MergeMode mode,
             BindingsView bindings = {});

  // Collectives: operations on a tensor in several contexts, each on a different device, of any
  // backends. Sums are added in the order of the list, by one expression ((t0 + t1) + t2) + ... if
  // the devices share memory, otherwise rounded after every addition: the bits depend on nothing
  // else. A sum is computed by the device that receives the sum, a copy is made by the device that
  // receives the copy. An all_reduce of 16 KiB and more, in total, is split into a part per device;
  // every device computes its part. A smaller all_reduce is computed by the first device. The code
  // is compiled in the call. Throws invalid_argument for an empty list, a device that is listed
  // twice, a root outside the list, types that do not fit, and memory that would be used twice (but
  // a part may lie in its place in a whole); not_found if a context lacks a tensor;
  // failed_precondition if its memory was donated; and the errors of Backend::compile() and
  // Context::link().

  /// The root's tensor becomes the sum of the tensors in all contexts; the other tensors stay
  /// unchanged. Several tensors are added by one routine if the devices share memory.
  void reduce(const Tensor& tensor, std::span<const Context> contexts, std::size_t root = 0);
  void reduce(std::span<const Tensor> tensors, std::span<const Context> contexts,
              std::size_t root = 0);
  /// The tensors become copies of the root's tensor.
  void broadcast(const Tensor& tensor, std::span<const Context> contexts, std::size_t root = 0);
  /// The tensors become the sum of the tensors in all contexts. Several tensors are added by one
  /// routine of each device if the devices share memory.
  void all_reduce(const Tensor& tensor, std::span<const Context> contexts);
  void all_reduce(std::span<const Tensor> tensors, std::span<const Context> contexts);
  /// In every context, `whole`, which has as many elements as the parts together, becomes the
  /// concatenation of the parts in list order.
  void all_gather(const Tensor& part, const Tensor& whole, std::span<const Context> contexts);
  /// In the k-th context, `part` becomes the k-th part of the sum of the `whole` tensors, which
  /// stay unchanged.
  void reduce_scatter(const Tensor& whole, const Tensor& part, std::span<const Context> contexts);

  /// A replay of everything recorded so far. Recording may continue, for another replay.
  [[nodiscard]] Replay finish() const;

 private:
  friend struct Inside;
  std::shared_ptr<rt::RecordingState> state_;
};

}  // namespace heddle
#pragma GCC visibility pop
