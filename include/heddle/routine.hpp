// Contexts and routines: which tensors have which memory on a device, and code linked into that.
// Both are immutable shared handles; moving one copies it, so that none is ever empty. Any thread
// may use them.
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

/// How a request to move data went.
enum class TransferOutcome : std::uint8_t {
  scheduled,      ///< a task was put on the timeline; see the event
  nothing_to_do,  ///< see the reason
  in_place,       ///< the device reads the host memory itself
  copied,         ///< merge: will be copied
  streamed,       ///< merge: borrows the source's buffer
};
[[nodiscard]] std::string_view name(TransferOutcome outcome) noexcept;

struct Transfer {
  TransferOutcome outcome = TransferOutcome::nothing_to_do;
  Event event{};
  std::string reason{};  ///< why there was nothing to do; else empty
};

struct TransferOptions {
  /// Events that the transfer comes after, too. It is skipped when one of them failed, as its own
  /// event tells, and its device goes on; see sched::SubmitOptions::after.
  std::vector<Event> after{};
  /// Order between this transfer and uses on other devices (D9); unset: as the backend says.
  std::optional<Sync> sync{};
  /// What happens where the destination's queue is full; unset: as its backend says.
  std::optional<sched::FullPolicy> full{};
  Event::Clock::time_point deadline{};  ///< for FullPolicy::deadline
};

/// The value of a static index: a number, or a cell that the caller owns, which is read when the
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
  /// Why no index can have this value: a number beyond 63 bits, or a null cell; empty when there is
  /// no mistake. Scheduling with one throws invalid_argument, which names the index.
  [[nodiscard]] std::string mistake() const;
  /// The number, or what the cell holds now. There must be no mistake.
  [[nodiscard]] std::int64_t now() const noexcept { return cell_ == nullptr ? value_ : *cell_; }
  /// Null where it is a number.
  [[nodiscard]] const std::int64_t* cell() const noexcept { return cell_; }

 private:
  enum class Kind : std::uint8_t { number, large, cell };
  Kind kind_;
  std::int64_t value_ = 0;
  const std::int64_t* cell_ = nullptr;
};

using Binding = std::pair<StaticIndex, BoundValue>;
/// Values of static indices, taken when the routine is scheduled: {{row, 3}, {column, &cell}}.
using Bindings = std::vector<Binding>;

/// What a call is given as bindings: braces in the call itself, for which no memory is taken, or a
/// vector. By index, {{row, 3}}, in any order; or by position, {3, &cell}: a value for each of
/// Code::statics(), in that order, for which no index is looked for. Not to be kept beyond the
/// call.
class BindingsView {
 public:
  BindingsView() = default;
  BindingsView(std::initializer_list<Binding> braces) noexcept  // NOLINT: {{row, 3}}
      : given_(std::span(braces.begin(), braces.size())) {}
  BindingsView(std::initializer_list<BoundValue> braces) noexcept  // NOLINT: {3, &cell}
      : given_(std::span(braces.begin(), braces.size())) {}
  BindingsView(const Bindings& bindings) noexcept  // NOLINT: a vector will do
      : given_(std::span(bindings)) {}
  /// By position: a vector, an array or a span of std::int64_t.
  template <std::convertible_to<std::span<const std::int64_t>> Values>
  BindingsView(const Values& values) noexcept  // NOLINT: such a vector will do, too
      : given_(std::span<const std::int64_t>(values)) {}

  using Given = std::variant<std::span<const Binding>, std::span<const BoundValue>,
                             std::span<const std::int64_t>>;
  [[nodiscard]] const Given& given() const noexcept { return given_; }

 private:
  Given given_;
};

/// One store to memory in a traced run. A tensor that is recomputed where it is read, or lives for
/// one run, is not traced as it is described; ask for MemoryMode::on_device. A reduction stores an
/// element once, after its last term, unless each term has to be in memory.
struct TracedValue {
  std::uint32_t statement;  ///< counts the stores of Code::loop_text() from 0, in order
  std::string tensor;
  std::int64_t offset;  ///< row-major
  double before;        ///< what memory held: anything, where the run has yet to assign the element
  double after;
};

struct ScheduleOptions {
  /// Events that this run comes after, too. It is skipped when one of them failed, as its own event
  /// tells, and the device goes on, which after Device::wait() it would not: only runs that come
  /// after this one are skipped. See sched::SubmitOptions::after.
  std::vector<Event> after{};
  /// Called on the device's thread for each assignment; needs code compiled with trace_values.
  std::function<void(const TracedValue&)> trace{};
  /// Whether a failure ends this run and those that list its event alone; see
  /// sched::SubmitOptions::contain.
  bool contain = false;
  /// Order between this run and uses on other devices (D9); unset: as the backend says.
  std::optional<Sync> sync{};
  /// What happens where the queue is full; unset: as the backend says.
  std::optional<sched::FullPolicy> full{};
  Event::Clock::time_point deadline{};  ///< for FullPolicy::deadline
};

struct LinkOptions {
  /// Tensors that must be in the context already where the code uses them: linking must not make
  /// them anew (not_found). One that the code does not use, or keeps to itself, is passed over; but
  /// one that is in neither code nor context is invalid_argument: another was meant. For
  /// link_batch(): of any code of the batch, and in the context that this is linked in.
  std::vector<Tensor> from_prior_context{};
  /// Tensors of the context that the code reads for the last time, each of which donates its memory
  /// to a tensor that the code makes and the context lacks: of its type, written whole, and no
  /// element before that was read. The memory goes over when the routine is scheduled, which is
  /// once: before that the new tensor cannot be used, after it the old one, in whatever context
  /// (failed_precondition naming both). One without elements has nothing to give, and stays. Not
  /// for link_batch().
  std::vector<Tensor> donate{};
};

class Context {
 public:
  /// An empty context on a device.
  explicit Context(const Device& device);
  Context(const Context&) = default;
  Context& operator=(const Context&) = default;

  /// Links code: tensors that it needs and the context lacks get memory (zeros, which their first
  /// use begins with). Memory that earlier tasks of the device use yet is zeroed by a task, for
  /// which a full queue is waited for. The routine's context is a child; this one does not change.
  /// Throws not_found for a missing prior tensor, invalid_argument for one that is in neither code
  /// nor context, exhausted naming tensor and bytes, failed_precondition for a tensor that an
  /// earlier routine of this lineage kept to itself, for two tensors that share memory which the
  /// code writes, for donated memory, for one that is to be donated and cannot, or after
  /// finalisation; what the device failed with, until it recovers.
  [[nodiscard]] Routine link(const Code& code, const LinkOptions& options = {},
                             std::source_location where = std::source_location::current()) const;
  /// Waits for the compile, and throws what it threw.
  [[nodiscard]] Routine link(const PendingCode& code, const LinkOptions& options = {},
                             std::source_location where = std::source_location::current()) const;
  /// Links each in the context of the one before, so that a tensor new to two of them gets one
  /// buffer, however the batch was compiled; positions stay.
  [[nodiscard]] RoutineBatch link_batch(
      const CodeBatch& batch, const LinkOptions& options = {},
      std::source_location where = std::source_location::current()) const;

  [[nodiscard]] Device device() const;
  [[nodiscard]] const std::string& label() const noexcept;
  [[nodiscard]] std::optional<Context> parent() const;
  [[nodiscard]] bool contains(const Tensor& tensor) const;
  [[nodiscard]] std::vector<Tensor> tensors() const;  ///< in the order of their creation
  [[nodiscard]] std::size_t num_bytes() const;        ///< the sum over its tensors
  /// The memory of a tensor. Throws not_found naming tensor and context.
  [[nodiscard]] BufferView view(const Tensor& tensor) const;
  /// The context with `tensor` in that memory; its type must be the tensor's, its memory space the
  /// device's (invalid_argument). A tensor that the context has already is failed_precondition, as
  /// related contexts use one buffer for it: for another begin with Context(device), put the
  /// tensors in, and link again. Code that uses overlapping views, of which it writes one, is
  /// refused when it is linked.
  [[nodiscard]] Context with(const Tensor& tensor, const BufferView& view) const;
  /// The merge tensor that the routine of this context reads.
  [[nodiscard]] std::optional<Tensor> expected_merge_tensor() const;

  /// Copies from or to the tensor's host storage on the device's timeline; the host memory is
  /// touched when the task runs, after the transfers of other devices that it has to come after
  /// (D9). The host's own accesses wait for the event. nothing_to_do when the tensor is not here or
  /// has no host storage; in_place when that is its memory here, a constant's too, as then there is
  /// nothing to move. Constants do not change: from_host into the memory of one is else
  /// failed_precondition unless it brings that one anew, and so is to_host of one, or into storage
  /// that a device has for one in place.
  Transfer from_host(const Tensor& tensor, const TransferOptions& options = {},
                     std::source_location where = std::source_location::current()) const;
  Transfer to_host(const Tensor& tensor, const TransferOptions& options = {},
                   std::source_location where = std::source_location::current()) const;

  /// Writes and waits. Throws invalid_argument for another dtype or count, not_found, or the
  /// device's failure; in tasks also what their waits end with, failed_precondition in one of this
  /// device. `values` are the caller's again, however it ends.
  template <class T>
  void write(const Tensor& tensor, std::span<const T> values,
             std::source_location where = std::source_location::current()) const {
    write_bytes(tensor, dtype_of_v<T>, std::as_bytes(values), values.size(), where);
  }
  template <class T>
  void write(const Tensor& tensor, const std::vector<T>& values,
             std::source_location where = std::source_location::current()) const {
    if constexpr (std::is_same_v<T, bool>) {  // packed: has no span
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
    require_readable(tensor, dtype_of_v<T>);  // before memory is taken for its values
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

  /// Lets go of its tensors, and of what its routine has for itself: memory that no other context,
  /// routine or view holds is free once the tasks that use it ended. Later use is
  /// failed_precondition, scheduling the routine that it belongs to included; children and their
  /// routines go on (D13). Idempotent.
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
  [[nodiscard]] Context context() const;  ///< the child that linking made
  [[nodiscard]] Code code() const;
  [[nodiscard]] std::optional<Tensor> merge_tensor() const { return code().merge_tensor(); }

  /// Puts the routine on its device's timeline. Every static index must be bound, once, within its
  /// range (invalid_argument naming index, value and range). failed_precondition: the merge buffer
  /// will hold another tensor than it reads, or none (both are named, D7); memory of a tensor was
  /// donated (D17); it reads, or writes only a part of, what a task that ended badly should have
  /// written (D9): then all of that is to be written first, by one routine or Context::write(), or
  /// in ranges of bytes by BufferView::from_host(); context, device or backend was finalised. A
  /// refused submission throws.
  Event schedule(BindingsView bindings = {}, const ScheduleOptions& options = {},
                 std::source_location where = std::source_location::current()) const;
  /// For who schedules it again and again with the same bindings. They are checked here, as by
  /// schedule().
  [[nodiscard]] Call prepare(BindingsView bindings = {}) const;
  [[nodiscard]] std::string to_string() const;

 private:
  friend struct Inside;
  explicit Routine(std::shared_ptr<const rt::RoutineState> state) noexcept
      : state_(std::move(state)) {}
  std::shared_ptr<const rt::RoutineState> state_;
};

/// A routine with its bindings, made by Routine::prepare(). A shared immutable handle, as Routine
/// is.
class Call {
 public:
  Call(const Call&) = default;
  Call& operator=(const Call&) = default;
  [[nodiscard]] Routine routine() const;
  /// As Routine::schedule() with those bindings, of which only cells are looked at again: they are
  /// read, and their values checked, each time.
  Event schedule(const ScheduleOptions& options = {},
                 std::source_location where = std::source_location::current()) const;

 private:
  friend struct Inside;
  explicit Call(std::shared_ptr<const rt::CallState> state) noexcept : state_(std::move(state)) {}
  std::shared_ptr<const rt::CallState> state_;
};

/// Routines of a batch; positions are kept, excluded ones are empty.
class RoutineBatch {
 public:
  RoutineBatch(std::vector<std::optional<Routine>> routines, Context context)
      : routines_(std::move(routines)), context_(std::move(context)) {}
  [[nodiscard]] std::size_t size() const noexcept { return routines_.size(); }
  /// Throws invalid_argument naming the range.
  [[nodiscard]] const std::optional<Routine>& operator[](std::size_t k) const;
  [[nodiscard]] auto begin() const noexcept { return routines_.begin(); }
  [[nodiscard]] auto end() const noexcept { return routines_.end(); }
  /// The context after all of them, which expects the merge tensor of the one that they were linked
  /// in.
  [[nodiscard]] const Context& context() const noexcept { return context_; }

 private:
  std::vector<std::optional<Routine>> routines_;
  Context context_;
};

/// Copies `tensor` from one context to another on the destination's timeline (D5). not_found when
/// the source lacks it.
Transfer copy(const Tensor& tensor, const Context& source, const Context& destination,
              const TransferOptions& options = {},
              std::source_location where = std::source_location::current());
/// Fills the merge buffer of the consumer's device with the tensor that the consumer merges (D6),
/// until the next load. The source needs the tensor, the consumer only reads it; a source that the
/// consumer writes is copied, not streamed, as the outcome says.
Transfer load_merge(const Routine& consumer, const Context& source, MergeMode mode,
                    const TransferOptions& options = {},
                    std::source_location where = std::source_location::current());
/// Fills the merge buffer of any device with any tensor; a routine that expects another tensor is
/// refused when it is scheduled. A routine that writes what it would read by a stream copies that
/// first, as counters say. Until the next load, writes of what is streamed come after a copy of it,
/// unless the order of either is the caller's (Sync::manual); so does a routine that takes its
/// memory (LinkOptions::donate). Buffer::donate() copies nothing: what is streamed is gone then,
/// and the consumer is refused until the next load. merge() leaves nothing borrowed.
Transfer load_merge(const Device& device, const Tensor& tensor, const Context& source,
                    MergeMode mode, const TransferOptions& options = {},
                    std::source_location where = std::source_location::current());
/// Fills the merge buffer and schedules the consumer, as one task, after which the merge buffer is
/// empty (D8). Refused as load_merge() and schedule() are, and then nothing changed.
Event merge(const Routine& consumer, const Context& source, MergeMode mode,
            BindingsView bindings = {}, const TransferOptions& options = {},
            std::source_location where = std::source_location::current());

}  // namespace heddle
#pragma GCC visibility pop
