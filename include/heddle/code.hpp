// Code: a compiled (or postponed) program, independent of any device. An immutable shared handle; a
// move copies the handle, so no handle is ever empty. Thread-safe.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/duration.hpp"
#include "heddle/program.hpp"
#include "heddle/schedule.hpp"
#include "heddle/tune.hpp"

namespace heddle::jit {
struct CodeData;
}  // namespace heddle::jit

#pragma GCC visibility push(default)
namespace heddle {

/// How a merge buffer is filled (D6).
enum class MergeMode : std::uint8_t {
  copy,    ///< the source is copied when the task runs on the destination's timeline
  stream,  ///< borrows the source's live buffer if memory is shared; copied otherwise
};
[[nodiscard]] constexpr std::string_view name(MergeMode mode) noexcept {
  return mode == MergeMode::copy ? "copy" : "stream";
}

struct CompileOptions {
  /// Name of the routine. Empty: the program's name, or a name made from the program's comments, or
  /// invalid_argument without either.
  std::string name{};
  /// true: compiled now, once, for any context. false: postponed to link, which may embed
  /// addresses.
  bool shared = true;
  /// Allows less exact results: sums may be reassociated, divisions become products by reciprocals,
  /// zeros may lose their sign, and sums of products of bf16 may treat subnormal numbers as 0, on
  /// processors with instructions that do.
  bool fast_math = false;
  /// Allows the threads of a GPU to add to elements at computed positions, and to keep their least
  /// or greatest value, in any order, by atomic operations; otherwise a single thread does so in
  /// order. Integers have the same bits either way. Sums of floats are rounded in an order that
  /// differs from run to run, and a GPU may treat subnormal numbers in sums of f32 as 0. Other
  /// operations and types stay in order, and so does everything on processors.
  bool unordered_scatters = false;
  Schedule schedule = Schedule::automatic;
  /// Steps that the schedule must leave out, in any order.
  std::vector<ScheduleStep> schedule_without{};
  /// invalid_argument if the processor has too few registers.
  std::optional<ContractionTile> contraction_tile{};
  /// Schedule choices to use. If not empty, no stored choice is looked up and nothing is measured,
  /// whatever `tune` says. invalid_argument for choices that no schedule could use.
  ScheduleChoices choices{};
  /// The use of schedule choices measured on the present machine.
  TuneOptions tune{};
  /// Set: a routine of the code accepts a merge tensor by this mode only (D6).
  std::optional<MergeMode> merge_mode{};
  /// Calls the schedule's trace hook for every assignment.
  bool trace_values = false;
  /// Set: the compile fails with `deadline` this long after the call, unless the backend's own
  /// compile_timeout ends it earlier.
  std::optional<std::chrono::nanoseconds> timeout{};
};

class Code {
 public:
  Code(const Code&) = default;
  Code& operator=(const Code&) = default;
  [[nodiscard]] const std::string& name() const noexcept;
  [[nodiscard]] bool is_shared() const noexcept;
  [[nodiscard]] std::optional<Tensor> merge_tensor() const;
  /// The static indices of the program, in the order in which schedule() takes values by position.
  /// The order depends on the program only; it is the same in every process.
  [[nodiscard]] std::vector<StaticIndex> statics() const;
  /// The tensors with values from the context in which the code is linked: the code reads them
  /// before it assigns them, and they have no host storage for initial values. Pass them to
  /// LinkOptions::from_prior_context to make sure that none begins with zeros.
  [[nodiscard]] std::vector<Tensor> tensors_from_prior() const;
  /// The memory mode of `tensor` in the code; nullopt if the program does not contain the tensor.
  [[nodiscard]] std::optional<MemoryMode> placement(const Tensor& tensor) const;
  /// The loop text as lowered, with tensor names as comments.
  [[nodiscard]] std::string unoptimized_text() const;
  /// The loop text after optimisation and scheduling, as compiled.
  [[nodiscard]] std::string loop_text() const;
  [[nodiscard]] std::string hash() const;  ///< the hash of loop_text() without names
  /// The source passed to the compiler; empty while postponed.
  [[nodiscard]] std::string source() const;
  [[nodiscard]] std::chrono::nanoseconds compile_time() const noexcept;
  [[nodiscard]] std::string to_string() const;

 private:
  friend struct Inside;
  explicit Code(std::shared_ptr<const jit::CodeData> state) noexcept : state_(std::move(state)) {}
  std::shared_ptr<const jit::CodeData> state_;
};

/// The progress of a batch.
struct CompileProgress {
  std::size_t done = 0;   ///< programs that are ready, including the present one
  std::size_t total = 0;  ///< programs to compile
  std::string name{};     ///< name of the program that became ready
};

struct BatchOptions {
  /// Options of every program, with two exceptions: the timeout is for the whole batch, and a name
  /// is invalid_argument.
  CompileOptions each{};
  /// A name for each program, or empty: programs keep their own names. Duplicates are
  /// invalid_argument.
  std::vector<std::string> names{};
  /// Entries for which the function returns false are neither lowered nor compiled; their positions
  /// stay empty.
  std::function<bool(const std::string& name, std::size_t position)> occupancy{};
  /// Called for every compiled program, one call at a time and in the order of `done`, by one of
  /// the compiling threads. No lock is held: the callback may run long, compile and link, while
  /// other threads continue; the batch ends after the last call. An exception fails the batch and
  /// ends the calls.
  std::function<void(const CompileProgress&)> progress{};
};

/// Programs compiled together, all or none; positions are kept, and excluded positions are empty.
/// Shared code is compiled in units of up to four programs, on every processor at once. The cache
/// stores units separately: a changed program does not recompile other units.
class CodeBatch {
 public:
  explicit CodeBatch(std::vector<std::optional<Code>> entries) : entries_(std::move(entries)) {}
  [[nodiscard]] std::size_t size() const noexcept { return entries_.size(); }
  /// Throws invalid_argument naming the range.
  [[nodiscard]] const std::optional<Code>& operator[](std::size_t k) const;
  [[nodiscard]] auto begin() const noexcept { return entries_.begin(); }
  [[nodiscard]] auto end() const noexcept { return entries_.end(); }
  /// The merge tensor read by the code at each position; nullopt if there is none.
  [[nodiscard]] std::vector<std::optional<Tensor>> merge_tensors() const;

 private:
  std::vector<std::optional<Code>> entries_;
};

}  // namespace heddle
#pragma GCC visibility pop
