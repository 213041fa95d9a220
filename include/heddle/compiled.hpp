// Compiled: a function of an executor, compiled ahead of calls for certain argument types.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "heddle/duration.hpp"
#include "heddle/event.hpp"
#include "heddle/executor_core.hpp"

#pragma GCC visibility push(default)
namespace heddle {

/// The memory of one call, in bytes.
struct CompiledMemory {
  std::size_t arguments = 0;
  std::size_t results = 0;  ///< of function results, variables and marked nodes
  std::size_t scratch = 0;  ///< additional memory while the call runs
  /// Bytes of results that can reuse the memory of arguments, if these are donated.
  std::size_t reusable = 0;
};
/// The operations of one call, counted from the loop text; skipping and repetition at run time are
/// not taken into account.
struct CompiledCost {
  std::uint64_t operations = 0;     ///< arithmetic on elements; a fused multiply-add counts as one
  std::uint64_t bytes_read = 0;     ///< by loads, from memory or caches
  std::uint64_t bytes_written = 0;  ///< by stores
};

namespace executors {

class CompiledBase {
 public:
  [[nodiscard]] const std::string& name() const noexcept;  ///< the name of its graph: "step#2"
  [[nodiscard]] ExecutorGraph graph() const;
  /// A line for every argument and result: name, type, "unused" for an unused argument, and the
  /// arguments whose memory a result may reuse.
  [[nodiscard]] std::string signature() const;
  [[nodiscard]] std::string text() const;  ///< the compiled loops: Code::loop_text()
  [[nodiscard]] CompiledCost cost() const;
  [[nodiscard]] CompiledMemory memory() const;

 protected:
  CompiledBase(Core core, std::optional<Device> device, EntryHandle entry)
      : core_(std::move(core)), device_(std::move(device)), entry_(std::move(entry)) {}
  template <class Results, class... Args>
  Results call_with(bool checked, const Args&... args) const {
    static_assert(have_values<Args...>());
    Arguments arguments;
    arguments.take(args...);
    Kept<Results> kept;
    core_.call_entry(entry_, arguments, kept, checked, device_ ? &*device_ : nullptr);
    return kept.give();
  }

 private:
  Core core_;
  std::optional<Device> device_;  // none: the executor's own device
  EntryHandle entry_;
};

}  // namespace executors

template <class Function>
class ExecutorCalls;
template <class Results>
class PendingCompiled;

/// A shared handle; a move copies the handle, so no handle is ever empty. Thread-safe. Stays
/// callable after the executor's cache evicts the entry, until the executor is finalised.
template <class Results>
class Compiled : public executors::CompiledBase {
 public:
  /// Calls the function, as a call of the executor does. Throws invalid_argument, naming the first
  /// five, for arguments whose types differ from the compiled types, even for unused arguments.
  template <class... Args>
  Results operator()(const Args&... args) const {
    return call(args...);
  }
  template <class... Args>
  Results call(const Args&... args) const {
    return this->template call_with<Results>(true, args...);
  }
  /// Calls without the type check. For arguments of other types the results are meaningless, or the
  /// behaviour is undefined.
  template <class... Args>
  Results call_unchecked(const Args&... args) const {
    return this->template call_with<Results>(false, args...);
  }

 private:
  template <class Function>
  friend class ExecutorCalls;
  friend class PendingCompiled<Results>;
  Compiled(executors::Core core, std::optional<Device> device, executors::EntryHandle entry)
      : CompiledBase(std::move(core), std::move(device), std::move(entry)) {}
};

/// A Compiled whose compile is in progress; see Pending.
template <class Results>
class PendingCompiled {
 public:
  [[nodiscard]] bool done() const noexcept { return pending_.done(); }
  [[nodiscard]] const Event& event() const noexcept { return pending_.event(); }
  /// Throws as get().
  void wait() const { static_cast<void>(pending_.get()); }
  [[nodiscard]] Compiled<Results> get() const { return {core_, device_, pending_.get()}; }
  Status wait_for(std::chrono::nanoseconds timeout) const noexcept {
    return pending_.wait_for(timeout);
  }
  void cancel() const noexcept { pending_.cancel(); }

 private:
  template <class Function>
  friend class ExecutorCalls;
  PendingCompiled(executors::Core core, std::optional<Device> device,
                  executors::PendingEntry pending)
      : core_(std::move(core)), device_(std::move(device)), pending_(std::move(pending)) {}
  executors::Core core_;
  std::optional<Device> device_;
  executors::PendingEntry pending_;
};

}  // namespace heddle
#pragma GCC visibility pop
