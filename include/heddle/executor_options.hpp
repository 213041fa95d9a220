// How executors are made, and what they tell: options, side parameters, loggers, statistics. For
// heddle/executor.hpp.
#pragma once

#include <chrono>
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
#include "heddle/executor_arguments.hpp"
#include "heddle/trace.hpp"

namespace heddle::rt {
class ExecutorCall;
}  // namespace heddle::rt

#pragma GCC visibility push(default)
namespace heddle {

/// What happens to a call with arguments of new types where the cache is full.
enum class CacheFull : std::uint8_t {
  refuse,            ///< it is `exhausted`, which says how its types differ from the closest ones
  drop_least_recent  ///< what was called least recently is forgotten
};

/// How arrays are given that lie in memory which the device of the call cannot address.
enum class OtherDevices : std::uint8_t {
  copy,   ///< a copy of them, as by Array::copy_to()
  refuse  ///< invalid_argument
};

/// Parameters that a function made itself, by Graph::parameter(), beside those of its arguments.
/// For the hook of one call, which sets them all; on its thread.
class SideParameters {
 public:
  SideParameters(const SideParameters&) = delete;
  SideParameters& operator=(const SideParameters&) = delete;

  [[nodiscard]] const Graph& graph() const noexcept { return graph_; }
  [[nodiscard]] std::size_t size() const noexcept { return slots_.size(); }
  // k < size(), else invalid_argument; in the order in which the function made them.
  [[nodiscard]] const std::string& name(std::size_t k) const;
  [[nodiscard]] const ArrayType& type(std::size_t k) const;
  /// Of the type of the parameter, else the call is refused. The last one set counts.
  void set(std::size_t k, const Array& array) { put(k, array, false); }
  void set(std::size_t k, const Donated<Array>& array) { put(k, array.tree(), true); }
  /// Of the first of that name. Throws invalid_argument where there is none.
  void set(std::string_view name, const Array& array) { put(find(name), array, false); }
  void set(std::string_view name, const Donated<Array>& array) {
    put(find(name), array.tree(), true);
  }

 private:
  friend class rt::ExecutorCall;
  struct Slot {
    const std::string* name;
    const ArrayType* type;
    std::optional<Array> array{};
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

/// What Node::log() marked in the graph of a call, in the order of the marks: they may be
/// unfinished.
struct LoggedNodes {
  const Graph& graph;
  std::span<const std::string> messages;
  std::span<const std::string> nodes;  ///< "%7 add f32[32,10]"
  std::span<const Array> values;
};
/// Called at the end of each call, on its thread, also where nothing is marked.
using NodeLogger = std::function<void(const LoggedNodes&)>;
/// Waits for the values, and prints them to stderr: a line with the name of the graph, then
/// message, node and value of each, abbreviated, or whole where the message begins with "#full ",
/// which it leaves out. Says nothing where nothing is marked.
[[nodiscard]] NodeLogger default_node_logger();
/// Both, one after the other.
[[nodiscard]] NodeLogger chain(NodeLogger first, NodeLogger second);

struct ExecutorOptions {
  /// In errors, traces and names of graphs: "step", of which the third graph is "step#2". Empty:
  /// where the executor was made: its file and line.
  std::string name{};
  CompileOptions compile{};  ///< but for its name
  /// Types of arguments that are kept compiled; nullopt: as many as there are. Calls that donate
  /// arrays of 256 KiB and more have graphs of their own, whose results lie in place.
  std::optional<std::size_t> cache_max = 32;
  CacheFull cache_full = CacheFull::refuse;
  /// Arguments by number, from 0, that every call takes, as if they were given by donate().
  std::vector<std::size_t> donate{};
  /// What errors call the arguments; those without a name are "arg0", "arg1".
  std::vector<std::string> argument_names{};
  OtherDevices other_devices = OtherDevices::copy;
  /// Called at each call of a graph with side parameters, once it is compiled and before it is
  /// launched. What it throws refuses the call.
  SideParametersHook on_side_parameters{};
  /// Null: what is marked is told to nobody.
  NodeLogger logger = default_node_logger();
  /// Each call waits for its results, and throws failed_precondition where one of them, or what a
  /// variable is set to, has a NaN, else an infinity: naming the node that it comes from, whose own
  /// operands have none, constants aside, with its scope and line, and how many. Every node of
  /// floats is computed and kept for that. For finding out.
  bool nan_check = false;
};

/// Since the executor was made.
struct ExecutorStatistics {
  std::uint64_t calls = 0;     ///< accepted ones, and refused ones
  std::uint64_t misses = 0;    ///< of them, those whose types were not compiled yet
  std::uint64_t traces = 0;    ///< of the function
  std::uint64_t compiles = 0;  ///< that ended well
  std::uint64_t dropped = 0;   ///< that the cache forgot
  std::uint64_t copies = 0;    ///< of arguments, from other devices
  std::size_t entries = 0;     ///< of the cache, now
};

/// One entry of the cache.
struct ExecutorGraph {
  TracedGraph traced;
  Code code;
  std::chrono::nanoseconds trace_time{};
  std::chrono::nanoseconds compile_time{};
};

}  // namespace heddle
#pragma GCC visibility pop
