// Recordings: work on devices that is done again and again, put together once and submitted as few
// tasks. Handles that copies share; moving one copies it, so that none is ever empty.
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
  /// Events that all of it waits for first, too: where one of them failed, nothing of it runs, and
  /// its devices go on.
  std::vector<Event> after{};
  /// What happens where a queue is full; unset: as the backend of its device says.
  std::optional<sched::FullPolicy> full{};
  /// For FullPolicy::deadline. As it waits for room, a run waits for its turn: not at all where one
  /// of its devices has FullPolicy::fail.
  Event::Clock::time_point deadline{};
};

/// What Recording::finish() makes: all that was recorded, to be run any number of times. It keeps
/// the routines and the memory of their tensors. Any thread may use it.
class Replay {
 public:
  Replay(const Replay&) = default;
  Replay& operator=(const Replay&) = default;
  [[nodiscard]] const std::string& name() const noexcept;

  /// Submits all of it, with the values that the same calls one by one would give: uses of the same
  /// memory in it are in the order of the recording, whatever `Sync` is, and as to other uses
  /// Backend's `Sync` says. What the device may run without a wait in between is one task. Every
  /// static index that was left open when recorded must be bound here, once, within its ranges.
  /// Gives the event of the last task on each device, in the order of these tasks. Host threads
  /// that run it at once take turns: each run is whole. What a task or a callback runs takes no
  /// turn, and nor do other calls: what they submit may lie between two tasks of a run.
  ///
  /// Throws invalid_argument for bindings; failed_precondition where memory of it was donated, or a
  /// context, device or backend of it finalised, or where it reads what was never written after a
  /// failure: then nothing was submitted. The same if a queue is full and its policy says so, or a
  /// device fails meanwhile: then the message says how many of its tasks were submitted. No buffer
  /// of it can be donated while a run of more than one task is being submitted.
  std::vector<Event> run(BindingsView bindings = {}, const ReplayOptions& options = {},
                         std::source_location where = std::source_location::current()) const;

  [[nodiscard]] std::size_t num_recorded() const noexcept;  ///< routines, copies, merges
  [[nodiscard]] std::size_t num_tasks() const noexcept;     ///< that one run submits
  /// The static indices that run() binds: in this order, if by position.
  [[nodiscard]] std::vector<StaticIndex> statics() const;
  /// A line for each task: its device, what it does, the tasks that it comes after.
  [[nodiscard]] std::string to_string() const;

 private:
  friend struct Inside;
  explicit Replay(std::shared_ptr<const rt::ReplayState> state) noexcept
      : state_(std::move(state)) {}
  std::shared_ptr<const rt::ReplayState> state_;
};

/// Takes work instead of a device, in the order of its calls. Any thread may use it.
class Recording {
 public:
  explicit Recording(std::string name = "replay");
  Recording(const Recording&) = default;
  Recording& operator=(const Recording&) = default;

  /// As Routine::schedule(). Static indices may be left open: Replay::run() binds them. A cell is
  /// read by each run. A routine that merges is recorded by merge(), and one that was linked to
  /// take memory (LinkOptions::donate) is not. Refused as schedule() is, by this call where memory
  /// was donated or a context finalised. What is to be there by the time of a run is looked at by
  /// Replay::run(): memory that a tensor was promised, and what was not written after a failure.
  void schedule(const Routine& routine, BindingsView bindings = {});
  void schedule(const Call& call);
  /// As heddle::copy(); nothing_to_do where that says so. Else the outcome has no event. Refused as
  /// schedule() is.
  Transfer copy(const Tensor& tensor, const Context& source, const Context& destination);
  /// As heddle::merge(). Refused as schedule() is.
  void merge(const Routine& consumer, const Context& source, MergeMode mode,
             BindingsView bindings = {});

  // Collectives: over a tensor in several contexts, each of a device of its own, of any backends.
  // What is added is added in the order of the list, by one expression ((t0 + t1) + t2) + ... where
  // all devices share memory, else rounded after each addition: the bits depend on nothing else.
  // A sum is made by the device that is to have it, a copy by the device that gets it. An
  // all_reduce of 16 KiB and more, all tensors together, is made in as many parts as there are
  // devices, one by each; a smaller one by the first device. Their code is compiled here. Throws
  // invalid_argument for an empty list, a device that is there twice, a root that is none, types
  // that do not fit, and memory that it would use twice (but a part may lie in its place in a
  // whole); not_found where a context lacks a tensor; failed_precondition where its memory was
  // donated; as Backend::compile() and Context::link() do.

  /// The root's becomes the sum of all; the others stay. Several tensors are added up by one
  /// routine, where all devices share memory.
  void reduce(const Tensor& tensor, std::span<const Context> contexts, std::size_t root = 0);
  void reduce(std::span<const Tensor> tensors, std::span<const Context> contexts,
              std::size_t root = 0);
  /// Each becomes what the root's is.
  void broadcast(const Tensor& tensor, std::span<const Context> contexts, std::size_t root = 0);
  /// Each becomes the sum of all. Several tensors are added up by one routine of each device, where
  /// all share memory.
  void all_reduce(const Tensor& tensor, std::span<const Context> contexts);
  void all_reduce(std::span<const Tensor> tensors, std::span<const Context> contexts);
  /// In each context `whole`, of as many elements as all parts, becomes the parts of all, one after
  /// the other.
  void all_gather(const Tensor& part, const Tensor& whole, std::span<const Context> contexts);
  /// In the k-th context `part` becomes the k-th part of the sum of all `whole`, which stay.
  void reduce_scatter(const Tensor& whole, const Tensor& part, std::span<const Context> contexts);

  /// All that was recorded so far; more may be recorded afterwards, for another one.
  [[nodiscard]] Replay finish() const;

 private:
  friend struct Inside;
  std::shared_ptr<rt::RecordingState> state_;
};

}  // namespace heddle
#pragma GCC visibility pop
