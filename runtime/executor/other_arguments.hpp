// The arguments of a call that the caller does not pass: side parameters, which a hook sets, and
// the arrays of variables. Used by one call.
#pragma once

#include <boost/container/small_vector.hpp>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>

#include "heddle/executor.hpp"
#include "runtime/executor/entry.hpp"

namespace heddle::rt {

struct CallTarget;

struct OtherArgument {
  Array array;  ///< defined before the arguments are checked
  bool donated = false;
};
/// One for each parameter after those that the caller passes, in order.
using OtherArguments = boost::container::small_vector<OtherArgument, 4>;

/// ExecutorOptions::on_side_parameters.
struct SideHook {
  /// Calls the hook for the side parameters, and leaves the arrays of variables unset. Throws the
  /// hook's error, and where a side parameter is not set or has another type.
  [[nodiscard]] static OtherArguments ask(const CallTarget& target);
};

/// The variables of a call, as the call read them at one moment. While the device accepts the call,
/// the call holds their locks.
class VariableSnapshot {
 public:
  /// Reads the arrays of all variables into `others`: the locks are held together, without a wait
  /// in between. Throws unavailable in a forked child.
  VariableSnapshot(const CompiledGraph& graph, OtherArguments& others) : graph_(graph) {
    if (!graph.variables.empty()) read(others);
  }
  VariableSnapshot(const VariableSnapshot&) = delete;
  VariableSnapshot& operator=(const VariableSnapshot&) = delete;

  [[nodiscard]] bool empty() const noexcept { return seen_.empty(); }
  /// Locks the variables until unlock(). false: a variable changed since the call read it, and
  /// nothing is locked.
  [[nodiscard]] bool hold() noexcept;
  /// Installs new arrays of updated variables, in order; the old arrays come back in `updates`.
  /// Under hold().
  void install(std::span<executors::Result> updates) noexcept;
  void unlock() noexcept;
  /// After a refusal: a variable changed since the call read it, and the caller must start again
  /// with the same arguments.
  [[nodiscard]] bool is_outdated() noexcept;
  /// Drops the arrays that the constructor set, before another attempt: handles of the call would
  /// keep the next one from updating in place.
  void drop(OtherArguments& others) const noexcept;

 private:
  void read(OtherArguments& others);

  /// The state in which the call read a variable.
  struct Seen {
    explicit Seen(VariableState* of) noexcept : variable(of) {}
    VariableState* variable;
    std::uint64_t changes = 0, looks = 0;
    bool donated = false;                         ///< some arrays of the variable are donated
    std::unique_lock<sched::BiasedMutex> lock{};  ///< held while the device accepts the call
  };
  const CompiledGraph& graph_;
  boost::container::small_vector<Seen, 2> seen_;  // as CompiledGraph::locked
};

}  // namespace heddle::rt
