// Compiled: a function of an executor, compiled for arguments of certain types, before it is
// called.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "heddle/event.hpp"
#include "heddle/executor_core.hpp"

#pragma GCC visibility push(default)
namespace heddle {

/// Bytes of one call.
struct CompiledMemory {
  std::size_t arguments = 0;
  std::size_t results = 0;  ///< of the function's, of variables and of marked nodes
  std::size_t scratch = 0;  ///< beside them, while it runs
  /// Of results that may lie in the memory of arguments, where these are donated.
  std::size_t reusable = 0;
};
/// What the loops of one call do, counted from their text: what is skipped or repeated as they run
/// is not known.
struct CompiledCost {
  std::uint64_t operations = 0;     ///< arithmetic on elements, a fused multiply-add being one
  std::uint64_t bytes_read = 0;     ///< by loads, from memory or caches
  std::uint64_t bytes_written = 0;  ///< by stores
};

namespace executors {

class CompiledBase {
 public:
  [[nodiscard]] const std::string& name() const noexcept;  ///< of its graph: "step#2"
  [[nodiscard]] ExecutorGraph graph() const;
  /// A line for each argument and result: its name, its type, whether it is used, whose memory it
  /// may have.
  [[nodiscard]] std::string signature() const;
  [[nodiscard]] std::string text() const;  ///< loops, as compiled: Code::loop_text()
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
  std::optional<Device> device_;  // none: the executor's own
  EntryHandle entry_;
};

}  // namespace executors

template <class Function>
class ExecutorCalls;
template <class Results>
class PendingCompiled;

/// A shared handle; moving one copies it, so that none is ever empty. Any thread may use it. It
/// stays callable when the executor's cache drops it, until the executor is finalised.
template <class Results>
class Compiled : public executors::CompiledBase {
 public:
  /// As a call of the executor. Throws invalid_argument for arguments of other types than those
  /// that it was compiled for, also of those that nothing is computed from: it names the first
  /// five.
  template <class... Args>
  Results operator()(const Args&... args) const {
    return call(args...);
  }
  template <class... Args>
  Results call(const Args&... args) const {
    return this->template call_with<Results>(true, args...);
  }
  /// The same for arguments that are known to be of these types: of others it computes nonsense, or
  /// breaks.
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

/// One that is being compiled, see Pending.
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
