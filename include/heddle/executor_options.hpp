// Options, side parameters, loggers and statistics of executors. For heddle/executor.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/array.hpp"
#include "heddle/code.hpp"
#include "heddle/duration.hpp"
#include "heddle/executor_arguments.hpp"
#include "heddle/trace.hpp"

namespace heddle::rt {
struct SideHook;
}  // namespace heddle::rt

#pragma GCC visibility push(default)
namespace heddle {

/// What happens to a call with arguments of new types if the cache is full.
enum class CacheFull : std::uint8_t {
  refuse,            ///< throws `exhausted`, naming the difference to the closest entry
  drop_least_recent  ///< evicts the least recently used entry
};

/// How a call treats arrays in memory that its device cannot address.
enum class OtherDevices : std::uint8_t {
  copy,   ///< copies them, as by Array::copy_to()
  refuse  ///< invalid_argument
};

/// The side parameters of a graph: parameters made by the function, with Graph::parameter(), in
/// addition to its arguments. For the hook of one call, which must set every side parameter, on the
/// thread of the call.
class SideParameters {
 public:
  SideParameters(const SideParameters&) = delete;
  SideParameters& operator=(const SideParameters&) = delete;

  [[nodiscard]] const Graph& graph() const noexcept { return graph_; }
  [[nodiscard]] std::size_t size() const noexcept { return slots_.size(); }
  // k < size(), else invalid_argument; in the order in which the function made the parameters.
  [[nodiscard]] const std::string& name(std::size_t k) const;
  [[nodiscard]] const ArrayType& type(std::size_t k) const;
  /// `array` must have the type of the parameter, else the call is refused. A later set()
  /// overrides.
  void set(std::size_t k, const Array& array) { put(k, array, false); }
  void set(std::size_t k, const Donated<Array>& array) { put(k, array.tree(), true); }
  /// Sets the first parameter of this name. Throws invalid_argument if there is none.
  void set(std::string_view name, const Array& array) { put(find(name), array, false); }
  void set(std::string_view name, const Donated<Array>& array) {
    put(find(name), array.tree(), true);
  }

 private:
  friend struct rt::SideHook;
  struct Slot {
    const std::string* name;
    const ArrayType* type;
    Array array{};  ///< without a value: not set
    bool donated = false;
  };
  explicit SideParameters(const Graph& graph) : graph_(graph) {}
  void put(std::size_t k, const Array& array, bool donated);
  [[nodiscard]] std::size_t find(std::string_view name) const;
  [[nodiscard]] const Slot& slot(std::size_t k) const;

  const Graph& graph_;
  std::vector<Slot> slots_;
};
using SideParametersHook = std::function<void(SideParameters&)>;

/// The nodes that Node::log() marked in the graph of a call, in the order of the marks. The values
/// may be unfinished.
struct LoggedNodes {
  const Graph& graph;
  std::span<const std::string> messages;
  std::span<const std::string> nodes;  ///< "%7 add f32[32,10]"
  std::span<const Array> values;
};
/// Called at the end of every call, on its thread, even if no node is marked.
using NodeLogger = std::function<void(const LoggedNodes&)>;
/// Waits for the values and prints them to stderr: a line with the name of the graph, then message,
/// node and value of every mark. Values are abbreviated, unless the message begins with "#full "
/// (the prefix is not printed). Prints nothing if no node is marked.
[[nodiscard]] NodeLogger default_node_logger();
/// Calls both loggers, one after the other.
[[nodiscard]] NodeLogger chain(NodeLogger first, NodeLogger second);

struct ExecutorOptions {
  /// Used in errors, traces and names of graphs: the third graph of executor "step" is "step#2".
  /// Empty: file and line where the executor was made.
  std::string name{};
  CompileOptions compile{};  ///< options of compiles; a name and trace_values are invalid_argument
  /// The maximal number of cache entries, one per combination of argument types; nullopt:
  /// unlimited. Calls that donate arrays of 256 KiB and more have separate graphs, whose results
  /// are computed in place.
  std::optional<std::size_t> cache_max = 32;
  CacheFull cache_full = CacheFull::refuse;
  /// Numbers of arguments, from 0, that every call donates, as if passed by donate().
  std::vector<std::size_t> donate{};
  /// The names of the arguments in errors; unnamed arguments are "arg0", "arg1".
  std::vector<std::string> argument_names{};
  OtherDevices other_devices = OtherDevices::copy;
  /// Called in every call of a graph with side parameters, after compiling and before the launch.
  /// An exception refuses the call.
  SideParametersHook on_side_parameters{};
  /// Null: marked nodes are not logged.
  NodeLogger logger = default_node_logger();
  /// For debugging: calls wait for their results, and throw failed_precondition if a result, or a
  /// value that a variable is set to, contains a NaN, or otherwise an infinity. The error names the
  /// node where the value arises (its operands, constants aside, contain none), with scope and
  /// line, and the number of affected elements. Every floating node is computed and kept for the
  /// check.
  bool nan_check = false;
};

/// Counts since the executor was made.
struct ExecutorStatistics {
  std::uint64_t calls = 0;     ///< accepted and refused calls
  std::uint64_t misses = 0;    ///< calls whose types were not compiled yet
  std::uint64_t traces = 0;    ///< traces of the function
  std::uint64_t compiles = 0;  ///< successful compiles
  std::uint64_t dropped = 0;   ///< entries evicted from the cache
  std::uint64_t copies = 0;    ///< copies of arguments from other devices
  std::size_t entries = 0;     ///< entries in the cache now
};

/// An entry of the cache.
struct ExecutorGraph {
  TracedGraph traced;
  Code code;
  std::chrono::nanoseconds trace_time{};
  std::chrono::nanoseconds compile_time{};
};

}  // namespace heddle
#pragma GCC visibility pop
