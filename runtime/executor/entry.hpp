// What an executor compiled for arguments of certain types: one entry of its cache. Immutable, but
// for where it is loaded; any thread.
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

/// The graph of a function, compiled for a backend, and what calls of it need to know.
struct CompiledGraph {
  struct Parameter {
    std::string name;
    ArrayType type;
    std::size_t bytes;
    std::optional<std::uint32_t> entry;  ///< of the signature; none: nothing of it is needed
    bool may_be_taken = false;           ///< some result may have its memory
    /// Of a variable that calls update: the result that it is from then on.
    std::optional<std::size_t> update{};
  };
  struct Result {
    std::string name;
    ArrayType type;
    std::size_t bytes = 0;
    std::optional<std::uint32_t> entry;  ///< none: it has no elements
    bool zeros = false;                  ///< its memory has to begin with them
    dev::Holder holder;                  ///< of its memory
  };

  /// Marked nodes: each is one of these.
  struct Marks {
    std::vector<std::size_t> results;
    std::vector<std::string> messages, nodes;  ///< "%7 add f32[32,10]"
  };
  struct VariableUse {
    std::shared_ptr<VariableState> variable;
    std::size_t first_parameter;
    std::optional<std::size_t> first_result;  ///< none: it stays
  };

  /// Throws what the compiler does.
  CompiledGraph(const TracedGraph& traced_graph, const std::shared_ptr<BackendState>& backend_state,
                const CompileOptions& options, const jit::CompileLimits& limits);

  /// Whether a result may have the memory of a parameter that is donated.
  [[nodiscard]] bool may_take(std::size_t result, std::size_t parameter) const noexcept;

  std::shared_ptr<BackendState> backend;
  TracedGraph traced;
  GraphProgram lowered;
  Code code;
  std::vector<Parameter> parameters;  ///< arguments, leaf by leaf, then side parameters
  /// Those of the function, of variables that it updates, then marked nodes that are no others.
  std::vector<Result> results;
  std::size_t num_function_results;
  Marks marks;
  std::vector<VariableUse> variables;
  std::size_t num_arguments;         ///< parameters that are leaves of arguments
  std::vector<std::size_t> sides{};  ///< those that are neither these nor of variables

  mutable std::atomic<bool> told_in_vain{false};

 private:
  void add_result(const Tensor& tensor, std::string result_name);
  void add_hidden();
  void add_mark(std::size_t k, const Node& node);
};

/// Memory of a graph that is a single kernel of few buffers: then a call of it lies in the queue
/// itself.
struct SmallBuffers {
  static constexpr std::size_t max = 5;
  struct Buffer {
    bool result;
    std::uint32_t number;  ///< of the parameter, or the result
    std::uint64_t bytes;
  };
  std::uint32_t num_buffers = 0;
  Buffer buffers[max] = {};  ///< in the order of the kernel's arguments
};

/// It on a virtual device. Held by the entry, and by tasks, which are counted.
class Site {
 public:
  /// Throws what the device says that loads it.
  Site(std::shared_ptr<const CompiledGraph> graph, const std::shared_ptr<DeviceState>& device,
       sched::Label label);

  const std::shared_ptr<const CompiledGraph> graph;
  const std::uint64_t timeline;  ///< of the device; none has the number again
  const std::weak_ptr<DeviceState> device;
  const std::shared_ptr<Execution> execution;
  const Loaded loaded;
  const sched::Label label;
  /// Shared with all routines of the device; null: it needs none.
  const std::shared_ptr<const Memory> scratch;
  /// Calls of it may be plain: see ExecutorCall.
  const bool is_plain;
  const std::optional<SmallBuffers> small;
  // What those hear who use a donated argument afterwards, whose memory a result has, or none.
  const std::vector<std::string> taken_texts;
  const std::string freed_text;
  // Under the ledger of the device; tasks look at other lines:
  alignas(sched::tuning::line_bytes) Spares spares;                     ///< records of calls
  std::vector<std::unique_ptr<ResultCells, ResultCells::LetGo>> cells;  ///< of each result
  sched::SplitCount<> launches{};

  std::atomic<Site*> next{nullptr};  ///< of the same entry

 private:
  [[nodiscard]] std::optional<SmallBuffers> small_buffers() const;
};

/// Lets it go: it ends with its last task.
struct LetSiteGo {
  void operator()(Site* site) const noexcept {
    if (site->launches.let_go()) delete site;
  }
};
using SiteOwner = std::unique_ptr<Site, LetSiteGo>;

struct Entry : std::enable_shared_from_this<Entry> {
  Entry(std::string entry_key, std::uint64_t key_hash, std::size_t number,
        std::shared_ptr<const CompiledGraph> compiled, const std::string& executor);
  Entry(const Entry&) = delete;
  Entry& operator=(const Entry&) = delete;
  /// Nobody calls it any more.
  ~Entry();

  /// Nobody can call it: its backend was finalised.
  [[nodiscard]] bool is_over() const noexcept;

  /// Where it is on a device; null: it was not called there yet.
  [[nodiscard]] Site* find_site(std::uint64_t timeline) const noexcept;
  /// The same, which loads it there. Throws as Site(). Those of devices that have gone since are
  /// given to `retire`.
  [[nodiscard]] Site& add_site(const std::shared_ptr<DeviceState>& device,
                               const std::function<void(SiteOwner)>& retire);

  const std::string key;
  const std::uint64_t hash;
  const std::size_t number;  ///< of its graph: 0 for the first that the executor traced
  const std::shared_ptr<const CompiledGraph> graph;
  const sched::Label label;  ///< of its tasks
  std::chrono::nanoseconds trace_time{}, compile_time{};
  std::atomic<std::uint64_t> last_used{0};
  /// It was compiled ahead, and so serves calls that donate large arguments, too.
  std::atomic<bool> is_ahead{false};

 private:
  void drop_gone(const std::function<void(SiteOwner)>& retire);

  std::mutex mutex_;                   // of those who add a site
  std::atomic<Site*> sites_{nullptr};  // found without it
};

}  // namespace heddle::rt
