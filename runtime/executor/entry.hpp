// One entry of an executor's cache: the code compiled for arguments of certain types. Immutable,
// but for the list of sites (devices on which the code is loaded); any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "devices/memory_cache.hpp"
#include "heddle/executor.hpp"
#include "runtime/device/spares.hpp"
#include "runtime/executor/result_cells.hpp"
#include "runtime/launch/loaded.hpp"
#include "scheduler/protocol/split_count.hpp"

namespace heddle::rt {

struct DeviceState;
struct Execution;
class Memory;
class VariableState;

/// The traced function, compiled for a backend, and the facts that calls need.
struct CompiledGraph {
  struct Parameter {
    std::string name;
    ArrayType type;
    std::size_t bytes;
    /// in the signature; none: the code does not need the parameter
    std::optional<std::uint32_t> entry;
    bool may_be_taken = false;  ///< a result may take the memory
    /// For an array of an updated variable: the index of the result that replaces the array.
    std::optional<std::size_t> update{};
    bool updated_in_place = false;  ///< that result may take the memory of the array
  };
  struct Result {
    std::string name;
    ArrayType type;
    std::size_t bytes = 0;
    std::optional<std::uint32_t> entry;  ///< none: the result has no elements
    bool zeros = false;                  ///< the memory must be filled with zeros first
    dev::Holder holder;                  ///< the holder that the memory cache names for the memory
  };

  /// Marked nodes: the index of the result that holds each node's values.
  struct Marks {
    std::vector<std::size_t> results;
    std::vector<std::string> messages, nodes;  ///< "%7 add f32[32,10]"
  };
  struct VariableUse {
    std::shared_ptr<VariableState> variable;
    std::size_t first_parameter;
    std::optional<std::size_t> first_result;  ///< none: the function does not update the variable
    std::size_t lock = 0;                     ///< index in `locked`
  };

  /// Throws the errors of the compiler.
  CompiledGraph(const TracedGraph& traced_graph, const std::shared_ptr<BackendState>& backend_state,
                const CompileOptions& options, const jit::CompileLimits& limits);

  /// Tells whether a result may take the memory of a donated parameter.
  [[nodiscard]] bool may_take(std::size_t result, std::size_t parameter) const noexcept;

  std::shared_ptr<BackendState> backend;
  TracedGraph traced;
  GraphProgram lowered;
  Code code;
  /// leaves of arguments, then side parameters and variables' arrays
  std::vector<Parameter> parameters;
  /// Results of the function, new arrays of updated variables, marked nodes not among the former,
  /// and hidden tensors.
  std::vector<Result> results;
  std::size_t num_function_results;
  Marks marks;
  std::vector<VariableUse> variables;
  std::vector<VariableState*> locked;  ///< the variables, in the order of locking: by address
  std::size_t num_arguments;           ///< number of parameters that are leaves of arguments
  std::vector<std::size_t> sides{};  ///< side parameters: neither arguments nor arrays of variables

  mutable std::atomic<bool> told_in_vain{false};

 private:
  void add_result(const Tensor& tensor, std::string result_name);
  void add_hidden();
  void add_mark(std::size_t k, const Node& node);
};

/// The buffers of a graph that is a single kernel of at most `max` buffers. The task of a call then
/// fits in the queue's slot.
struct SmallBuffers {
  static constexpr std::size_t max = 5;
  struct Buffer {
    bool result;
    std::uint32_t number;  ///< of the parameter or of the result
    std::uint64_t bytes;
  };
  std::uint32_t num_buffers = 0;
  Buffer buffers[max] = {};  ///< in the order of the kernel's arguments
};

/// The code of an entry on one virtual device. Held by the entry, and by counted tasks.
class Site {
 public:
  /// Throws the error of the device that fails to load the code.
  Site(std::shared_ptr<const CompiledGraph> graph, const std::shared_ptr<DeviceState>& device,
       sched::Label label);

  const std::shared_ptr<const CompiledGraph> graph;
  const std::uint64_t timeline;  ///< the device's number, never reused
  const std::weak_ptr<DeviceState> device;
  const std::shared_ptr<Execution> execution;
  const Loaded loaded;
  const sched::Label label;
  /// Shared with every routine of the device; null: the code needs no scratch memory.
  const std::shared_ptr<const Memory> scratch;
  /// True: calls may take the fast path.
  const bool is_plain;
  const std::optional<SmallBuffers> small;
  // Texts for an error about the later use of a donated argument: a result has the memory, or no
  // result.
  const std::vector<std::string> taken_texts;
  const std::string freed_text;
  // On cache lines that running tasks do not read. Under the ledger (the device lock), but for the
  // pools, which have locks of their own.
  alignas(sched::tuning::line_bytes) Spares spares;  ///< free list of call records
  /// handle pool of each result
  std::vector<std::unique_ptr<ResultCells, ResultCells::LetGo>> cells;
  sched::SplitCount<> launches{};

  std::atomic<Site*> next{nullptr};  ///< next site of the entry

 private:
  [[nodiscard]] std::optional<SmallBuffers> small_buffers() const;
};

/// Lets the owner's hold go: the site is destroyed with its last task.
struct LetSiteGo {
  void operator()(Site* site) const noexcept;
};
using SiteOwner = std::unique_ptr<Site, LetSiteGo>;

struct Entry : std::enable_shared_from_this<Entry> {
  Entry(std::string entry_key, std::uint64_t key_hash, std::size_t number,
        std::shared_ptr<const CompiledGraph> compiled, const std::string& executor);
  Entry(const Entry&) = delete;
  Entry& operator=(const Entry&) = delete;
  /// No call holds the entry any more.
  ~Entry();

  /// The backend was finalised: no call can use the entry.
  [[nodiscard]] bool is_over() const noexcept;

  /// The site of a device; null: the code is not loaded on the device.
  [[nodiscard]] Site* find_site(std::uint64_t timeline) const noexcept;
  /// Finds or loads the site. Throws as Site() does. Passes the sites of removed devices to
  /// `retire`.
  [[nodiscard]] Site& add_site(const std::shared_ptr<DeviceState>& device,
                               const std::function<void(SiteOwner)>& retire);

  const std::string key;
  const std::uint64_t hash;
  const std::size_t number;  ///< of the graph: 0 for the first graph that the executor traced
  const std::shared_ptr<const CompiledGraph> graph;
  const sched::Label label;  ///< of the entry's tasks
  std::chrono::nanoseconds trace_time{}, compile_time{};
  std::atomic<std::uint64_t> last_used{0};
  /// The entry was compiled ahead, and also serves calls that donate large arguments.
  std::atomic<bool> is_ahead{false};

 private:
  void drop_gone(const std::function<void(SiteOwner)>& retire);

  std::mutex mutex_;                   // held while a site is added
  std::atomic<Site*> sites_{nullptr};  // read without the lock
};

}  // namespace heddle::rt
