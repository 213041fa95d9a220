// Contexts and routines. A context maps tensors to device memory; a routine is code linked into a
// context. Immutable shared handles; a move copies the handle, so no handle is ever empty.
// Thread-safe.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "heddle/code.hpp"
#include "heddle/device.hpp"
#include "heddle/pending.hpp"
#include "heddle/program.hpp"

namespace heddle::rt {
struct CallState;
struct ContextState;
struct RoutineState;
}  // namespace heddle::rt

#pragma GCC visibility push(default)
namespace heddle {

class Call;
class Routine;
class RoutineBatch;

/// The outcome of a request to move data.
enum class TransferOutcome : std::uint8_t {
  scheduled,      ///< a task was put on the timeline; see the event
  nothing_to_do,  ///< see the reason
  in_place,       ///< the device uses the host memory itself
  copied,         ///< merge: will be copied
  streamed,       ///< merge: borrows the source's buffer
};
[[nodiscard]] std::string_view name(TransferOutcome outcome) noexcept;

struct Transfer {
  TransferOutcome outcome = TransferOutcome::nothing_to_do;
  Event event{};
  std::string reason{};  ///< why there was nothing to do; empty otherwise
};

struct TransferOptions {
  /// Events that the transfer waits for, too. If an event failed, the transfer is skipped, which
  /// its own event reports, and the device continues; see sched::SubmitOptions::after.
  std::vector<Event> after{};
  /// The order between the transfer and uses on other devices (D9). Unset: the backend's default.
  std::optional<Sync> sync{};
  /// The policy for a full queue of the destination. Unset: the default of its backend.
  std::optional<sched::FullPolicy> full{};
  Event::Clock::time_point deadline{};  ///< for FullPolicy::deadline
};

/// The value of a static index: a number, or a cell owned by the caller. A cell is read when the
/// routine is scheduled, by the scheduling thread, and never later.
class BoundValue {
 public:
  template <std::integral T>
  BoundValue(T value)  // NOLINT: {{row, 3}}
      : kind_(static_cast<std::int64_t>(value) < 0 && std::is_unsigned_v<T> ? Kind::large
                                                                            : Kind::number),
        value_(static_cast<std::int64_t>(value)) {}
  BoundValue(const std::int64_t* cell)  // NOLINT: {{row, &cell}}
      : kind_(Kind::cell), cell_(cell) {}
  /// Why no index can have this value: a number beyond 63 bits, or a null cell; empty for a valid
  /// value. Scheduling with an invalid value throws invalid_argument, which names the index.
  [[nodiscard]] std::string mistake() const;
  /// The number, or the present content of the cell. mistake() must be empty.
  [[nodiscard]] std::int64_t now() const noexcept { return cell_ == nullptr ? value_ : *cell_; }
  /// Null for a number.
  [[nodiscard]] const std::int64_t* cell() const noexcept { return cell_; }

 private:
  enum class Kind : std::uint8_t { number, large, cell };
  Kind kind_;
  std::int64_t value_ = 0;
  const std::int64_t* cell_ = nullptr;
};

using Binding = std::pair<StaticIndex, BoundValue>;
/// Values of static indices, bound when the routine is scheduled: {{row, 3}, {column, &cell}}.
using Bindings = std::vector<Binding>;

/// Bindings as passed to a call: braces in the call, without an allocation, or a vector. By index,
/// {{row, 3}}, in any order; or by position, {3, &cell}: a value for every index of
/// Code::statics(), in the same order, without a search for the index. Must not outlive the call.
class BindingsView {
 public:
  BindingsView() = default;
  BindingsView(std::initializer_list<Binding> braces) noexcept  // NOLINT: {{row, 3}}
      : given_(std::span(braces.begin(), braces.size())) {}
  BindingsView(std::initializer_list<BoundValue> braces) noexcept  // NOLINT: {3, &cell}
      : given_(std::span(braces.begin(), braces.size())) {}
  BindingsView(const Bindings& bindings) noexcept  // NOLINT: a vector is accepted, too
      : given_(std::span(bindings)) {}
  /// By position: a vector, an array or a span of std::int64_t.
  template <std::convertible_to<std::span<const std::int64_t>> Values>
  BindingsView(const Values& values) noexcept  // NOLINT: implicit by design
      : given_(std::span<const std::int64_t>(values)) {}

  using Given = std::variant<std::span<const Binding>, std::span<const BoundValue>,
                             std::span<const std::int64_t>>;
  [[nodiscard]] const Given& given() const noexcept { return given_; }

 private:
  Given given_;
};

/// One store to memory in a traced run. Tracing does not follow the description for a tensor that
/// is recomputed where read, or lives for one run; request MemoryMode::on_device to trace it. A
/// reduction stores an element once, after its last term, unless every term has to be in memory.
struct TracedValue {
  std::uint32_t statement;  ///< number of the store in Code::loop_text(), from 0, in order
  std::string tensor;
  std::int64_t offset;  ///< row-major
  double before;  ///< the previous content; arbitrary if the run has not assigned the element yet
  double after;
};

struct ScheduleOptions {
  /// Events that the run waits for, too. If an event failed, the run is skipped, which its own
  /// event reports, and the device continues: only runs that wait for this run are skipped. (After
  /// Device::wait() for a failed event the device does not continue.) See
  /// sched::SubmitOptions::after.
  std::vector<Event> after{};
  /// Called on the device's thread for every assignment; needs code compiled with trace_values.
  std::function<void(const TracedValue&)> trace{};
  /// true: a failure affects only the run and the runs that list its event; see
  /// sched::SubmitOptions::contain.
  bool contain = false;
  /// The order between the run and uses on other devices (D9). Unset: the backend's default.
  std::optional<Sync> sync{};
  /// The policy for a full queue. Unset: the backend's default.
  std::optional<sched::FullPolicy> full{};
  Event::Clock::time_point deadline{};  ///< for FullPolicy::deadline
};

struct LinkOptions {
  /// Tensors that the context must already hold if the code uses them: linking must not create them
  /// (not_found). A tensor that the code does not use, or uses internally only, is ignored; a
  /// tensor in neither code nor context is invalid_argument, as it is probably the wrong tensor.
  /// For link_batch(): used by any code of the batch, and held by the context in which the batch is
  /// linked.
  std::vector<Tensor> from_prior_context{};
  /// Tensors of the context that the code reads for the last time. A listed tensor donates its
  /// memory to a tensor that the code creates and the context lacks, which must have the same type
  /// and be written whole, no element before the donor's element was read. The memory changes hands
  /// when the routine is scheduled, which is possible once: before, the new tensor cannot be used;
  /// afterwards, the old tensor cannot be used in any context (failed_precondition naming both). A
  /// tensor without elements has nothing to donate, and stays. Must be empty for link_batch().
  std::vector<Tensor> donate{};
};

class Context {
 public:
  /// An empty context on a device.
  explicit Context(const Device& device);
  Context(const Context&) = default;
  Context& operator=(const Context&) = default;

  /// Links code. Tensors that the code needs and the context lacks get memory, zero-filled by the
  /// first use; if earlier tasks of the device still use the memory, link() submits a task that
  /// zeroes it, and waits while the queue is full. The routine's context is a child; the parent
  /// does not change. Throws not_found for a missing prior tensor; invalid_argument for a prior
  /// tensor in neither code nor context; exhausted naming tensor and bytes; failed_precondition for
  /// a tensor that an earlier routine of this lineage used internally only, for two tensors that
  /// share memory which the code writes, for donated memory, for a tensor that cannot be donated as
  /// requested, and after finalisation; and the device's failure, until it recovers.
  [[nodiscard]] Routine link(const Code& code, const LinkOptions& options = {},
                             std::source_location where = std::source_location::current()) const;
  /// Waits for the compile, and rethrows its error.
  [[nodiscard]] Routine link(const PendingCode& code, const LinkOptions& options = {},
                             std::source_location where = std::source_location::current()) const;
  /// Links every entry in the context of the previous entry, so a tensor new to two entries gets
  /// one buffer, however the batch was compiled; positions are kept.
  [[nodiscard]] RoutineBatch link_batch(
      const CodeBatch& batch, const LinkOptions& options = {},
      std::source_location where = std::source_location::current()) const;

  [[nodiscard]] Device device() const;
  [[nodiscard]] const std::string& label() const noexcept;
  [[nodiscard]] std::optional<Context> parent() const;
  [[nodiscard]] bool contains(const Tensor& tensor) const;
  [[nodiscard]] std::vector<Tensor> tensors() const;  ///< in order of creation
  [[nodiscard]] std::size_t num_bytes() const;        ///< the sum over the context's tensors
  /// The memory of a tensor. Throws not_found naming tensor and context.
  [[nodiscard]] BufferView view(const Tensor& tensor) const;
  /// A child context with `tensor` at `view`. The types must be equal and the device must share the
  /// view's memory space (invalid_argument). A tensor that the context already contains is
  /// failed_precondition, because related contexts use one buffer for a tensor: to replace the
  /// buffer, begin with Context(device), add the tensors, and link again. Code that uses two
  /// overlapping views and writes one of them is refused by link().
  [[nodiscard]] Context with(const Tensor& tensor, const BufferView& view) const;
  /// The merge tensor that the context's routine reads.
  [[nodiscard]] std::optional<Tensor> expected_merge_tensor() const;

  /// Copies between the tensor's memory and its host storage, on the device's timeline. The host
  /// memory is accessed when the task runs, after conflicting transfers of other devices (D9).
  /// Before accessing the storage itself, the host must wait for the event. nothing_to_do if the
  /// tensor is not in the context or has no host storage; in_place if the tensor's memory is the
  /// host storage (also for a constant). Constants do not change: failed_precondition for
  /// from_host() into memory of a constant, except to transfer the same constant again; for
  /// to_host() of a constant that is not in place; and for to_host() into storage that a device
  /// uses in place for a constant.
  Transfer from_host(const Tensor& tensor, const TransferOptions& options = {},
                     std::source_location where = std::source_location::current()) const;
  Transfer to_host(const Tensor& tensor, const TransferOptions& options = {},
                   std::source_location where = std::source_location::current()) const;

  /// Writes and waits. Throws invalid_argument for another dtype or count, not_found, or the
  /// device's failure; inside a task, also the errors of the wait: failed_precondition in a task of
  /// this device. The caller may reuse `values` when the call returns or throws.
  template <class T>
  void write(const Tensor& tensor, std::span<const T> values,
             std::source_location where = std::source_location::current()) const {
    write_bytes(tensor, dtype_of_v<T>, std::as_bytes(values), values.size(), where);
  }
  template <class T>
  void write(const Tensor& tensor, const std::vector<T>& values,
             std::source_location where = std::source_location::current()) const {
    if constexpr (std::is_same_v<T, bool>) {  // std::vector<bool> is packed and has no span
      const auto unpacked = std::make_unique<bool[]>(values.size());
      std::copy(values.begin(), values.end(), unpacked.get());
      write(tensor, std::span<const bool>(unpacked.get(), values.size()), where);
    } else {
      write(tensor, std::span<const T>(values), where);
    }
  }
  /// Waits and reads, row-major. Errors as for write().
  template <class T>
  [[nodiscard]] std::vector<T> read(
      const Tensor& tensor, std::source_location where = std::source_location::current()) const {
    require_readable(tensor, dtype_of_v<T>);  // before allocating memory for the values
    const auto count = static_cast<std::size_t>(tensor.num_elements());
    if constexpr (std::is_same_v<T, bool>) {
      const auto values = std::make_unique<bool[]>(count);
      read_bytes(tensor, std::as_writable_bytes(std::span(values.get(), count)), where);
      return std::vector<T>(values.get(), values.get() + count);
    } else {
      std::vector<T> values(count);
      read_bytes(tensor, std::as_writable_bytes(std::span<T>(values)), where);
      return values;
    }
  }

  /// Releases the context's tensors and its routine's own memory: memory not held by another
  /// context, routine or view is freed after the last task that uses it. Later use is
  /// failed_precondition, including scheduling the routine of this context; children and their
  /// routines remain usable (D13). Idempotent.
  void finalize() const noexcept;
  [[nodiscard]] std::string to_string() const;

 private:
  friend struct Inside;
  explicit Context(std::shared_ptr<const rt::ContextState> state) noexcept
      : state_(std::move(state)) {}
  void write_bytes(const Tensor& tensor, DType dtype, std::span<const std::byte> bytes,
                   std::size_t count, const std::source_location& where) const;
  void read_bytes(const Tensor& tensor, std::span<std::byte> bytes,
                  const std::source_location& where) const;
  void require_readable(const Tensor& tensor, DType dtype) const;

  std::shared_ptr<const rt::ContextState> state_;
};

class Routine {
 public:
  Routine(const Routine&) = default;
  Routine& operator=(const Routine&) = default;
  [[nodiscard]] const std::string& name() const noexcept;
  [[nodiscard]] Context context() const;  ///< the child context created by linking
  [[nodiscard]] Code code() const;
  [[nodiscard]] std::optional<Tensor> merge_tensor() const { return code().merge_tensor(); }

  /// Puts the routine on its device's timeline. Every static index must be bound exactly once,
  /// within its range (invalid_argument naming index, value and range). Throws failed_precondition
  /// if
  ///   - the merge buffer will hold a different tensor than the routine reads, or none (the error
  ///     names them, D7);
  ///   - the memory of a tensor was donated (D17);
  ///   - the routine reads, or only partly overwrites, memory that a task which ended badly should
  ///     have written (D9): first write all of that memory, by one routine or Context::write(), or
  ///     in ranges of bytes by BufferView::from_host();
  ///   - context, device or backend was finalised.
  /// A refused submission throws.
  Event schedule(BindingsView bindings = {}, const ScheduleOptions& options = {},
                 std::source_location where = std::source_location::current()) const;
  /// Checks the bindings as schedule() does, for repeated scheduling with the same bindings.
  [[nodiscard]] Call prepare(BindingsView bindings = {}) const;
  [[nodiscard]] std::string to_string() const;

 private:
  friend struct Inside;
  explicit Routine(std::shared_ptr<const rt::RoutineState> state) noexcept
      : state_(std::move(state)) {}
  std::shared_ptr<const rt::RoutineState> state_;
};

/// A routine with its bindings, made by Routine::prepare(). An immutable shared handle, like
/// Routine.
class Call {
 public:
  Call(const Call&) = default;
  Call& operator=(const Call&) = default;
  [[nodiscard]] Routine routine() const;
  /// Schedules as Routine::schedule() does, with the prepared bindings. Only cells are read and
  /// checked again, at every call.
  Event schedule(const ScheduleOptions& options = {},
                 std::source_location where = std::source_location::current()) const;

 private:
  friend struct Inside;
  explicit Call(std::shared_ptr<const rt::CallState> state) noexcept : state_(std::move(state)) {}
  std::shared_ptr<const rt::CallState> state_;
};

/// Routines of a batch; positions are kept, and excluded positions are empty.
class RoutineBatch {
 public:
  RoutineBatch(std::vector<std::optional<Routine>> routines, Context context)
      : routines_(std::move(routines)), context_(std::move(context)) {}
  [[nodiscard]] std::size_t size() const noexcept { return routines_.size(); }
  /// Throws invalid_argument naming the range.
  [[nodiscard]] const std::optional<Routine>& operator[](std::size_t k) const;
  [[nodiscard]] auto begin() const noexcept { return routines_.begin(); }
  [[nodiscard]] auto end() const noexcept { return routines_.end(); }
  /// The context after the last entry. The merge tensor is that of the context in which the batch
  /// was linked.
  [[nodiscard]] const Context& context() const noexcept { return context_; }

 private:
  std::vector<std::optional<Routine>> routines_;
  Context context_;
};

/// Copies `tensor` between contexts, on the destination's timeline (D5). not_found if the source
/// lacks the tensor.
Transfer copy(const Tensor& tensor, const Context& source, const Context& destination,
              const TransferOptions& options = {},
              std::source_location where = std::source_location::current());
/// Fills the merge buffer of the consumer's device with the tensor that the consumer merges (D6),
/// until the next load. The source needs the tensor; the consumer only reads it. A source that the
/// consumer writes is copied, not streamed; the outcome says which.
Transfer load_merge(const Routine& consumer, const Context& source, MergeMode mode,
                    const TransferOptions& options = {},
                    std::source_location where = std::source_location::current());
/// Fills the merge buffer of any device with any tensor; scheduling a routine that expects a
/// different tensor is refused. A routine that would write memory while reading it as a stream
/// copies the memory first; the counters show the copy. Until the next load, writes to streamed
/// memory come after a copy, unless either side has Sync::manual; the same holds for a routine that
/// takes the memory (LinkOptions::donate). Buffer::donate() copies nothing: the streamed values are
/// lost, and the consumer is refused until the next load. merge() leaves nothing borrowed.
Transfer load_merge(const Device& device, const Tensor& tensor, const Context& source,
                    MergeMode mode, const TransferOptions& options = {},
                    std::source_location where = std::source_location::current());
/// Fills the merge buffer and schedules the consumer, as one task, after which the merge buffer is
/// empty (D8). Refused as load_merge() and schedule() are; a refusal changes nothing.
Event merge(const Routine& consumer, const Context& source, MergeMode mode,
            BindingsView bindings = {}, const TransferOptions& options = {},
            std::source_location where = std::source_location::current());

}  // namespace heddle
#pragma GCC visibility pop
