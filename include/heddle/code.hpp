// Code: a compiled (or postponed) program, free of any device. A shared immutable handle; moving
// one copies it, so that none is ever empty. Any thread may use it.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/program.hpp"
#include "heddle/schedule.hpp"
#include "heddle/tune.hpp"

namespace heddle::jit {
struct CodeData;
}  // namespace heddle::jit

#pragma GCC visibility push(default)
namespace heddle {

/// How a merge buffer gets its contents (D6).
enum class MergeMode : std::uint8_t {
  copy,    ///< the source is copied when the item runs on the destination's timeline
  stream,  ///< borrows the source's live buffer where memory is shared; copied where it is not
};
[[nodiscard]] constexpr std::string_view name(MergeMode mode) noexcept {
  return mode == MergeMode::copy ? "copy" : "stream";
}

struct CompileOptions {
  /// Name of the routine; empty: the program's, else one made from its comments, else
  /// invalid_argument.
  std::string name{};
  /// true: compiled now, once, for any context. false: postponed to link, which may embed
  /// addresses.
  bool shared = true;
  /// Numbers may be less exact: sums may be reassociated and divisions become products by
  /// reciprocals, zeros lose their sign, and sums of products of bf16 may take subnormal numbers
  /// for 0, where the processor has instructions that do.
  bool fast_math = false;
  Schedule schedule = Schedule::automatic;
  /// Steps that the schedule shall leave out, in any order.
  std::vector<ScheduleStep> schedule_without{};
  /// invalid_argument where the processor has too few registers.
  std::optional<ContractionTile> contraction_tile{};
  /// Choices that are taken in any case, unless they are empty: nothing is then looked for, or
  /// measured, as `tune` says. invalid_argument for those that no schedule could use.
  ScheduleChoices choices{};
  /// Whether schedules take what was measured on this machine.
  TuneOptions tune{};
  /// Set: a routine of this code takes its merge tensor by this mode only (D6).
  std::optional<MergeMode> merge_mode{};
  /// Every assignment calls the trace hook of its schedule.
  bool trace_values = false;
  /// Set: the compile ends with `deadline` this long after the call, if the backend's own
  /// compile_timeout did not end it before.
  std::optional<std::chrono::nanoseconds> timeout{};
};

class Code {
 public:
  Code(const Code&) = default;
  Code& operator=(const Code&) = default;
  [[nodiscard]] const std::string& name() const noexcept;
  [[nodiscard]] bool is_shared() const noexcept;
  [[nodiscard]] std::optional<Tensor> merge_tensor() const;
  /// Those that the program uses, in the order in which schedule() takes values by position. That
  /// order is the program's own, the same in each process.
  [[nodiscard]] std::vector<StaticIndex> statics() const;
  /// The tensors whose values it takes from the context that it is linked in: it reads them before
  /// it assigns them, and they have no host storage to begin with. What to give
  /// LinkOptions::from_prior_context where nothing shall begin with zeros.
  [[nodiscard]] std::vector<Tensor> tensors_from_prior() const;
  /// Where `tensor` was placed; nullopt when the program has no such tensor.
  [[nodiscard]] std::optional<MemoryMode> placement(const Tensor& tensor) const;
  /// The loop text as lowered, with tensor names as comments.
  [[nodiscard]] std::string unoptimized_text() const;
  /// The same as optimised and scheduled: what is compiled.
  [[nodiscard]] std::string loop_text() const;
  [[nodiscard]] std::string hash() const;  ///< that of loop_text(), without names
  /// What went to the compiler; empty while postponed.
  [[nodiscard]] std::string source() const;
  [[nodiscard]] std::chrono::nanoseconds compile_time() const noexcept;
  [[nodiscard]] std::string to_string() const;

 private:
  friend struct Inside;
  explicit Code(std::shared_ptr<const jit::CodeData> state) noexcept : state_(std::move(state)) {}
  std::shared_ptr<const jit::CodeData> state_;
};

/// How far a batch is.
struct CompileProgress {
  std::size_t done = 0;   ///< programs that are ready, this one included
  std::size_t total = 0;  ///< programs that are to be compiled
  std::string name{};     ///< the name of the one that is ready
};

struct BatchOptions {
  /// Options of each program; but the timeout is for all of them together, and a name here is
  /// invalid_argument.
  CompileOptions each{};
  /// A name for each program, or empty: they keep their own. Duplicates are invalid_argument.
  std::vector<std::string> names{};
  /// Entries for which this is false are neither lowered nor compiled; their place stays empty.
  std::function<bool(const std::string& name, std::size_t position)> occupancy{};
  /// Called for each program that is compiled, one call at a time and in the order of `done`, by
  /// one of the threads that compile. No lock is held: it may take its time, compile and link,
  /// while the others go on; the batch ends after its last call. What it throws fails the batch,
  /// and it is called no more.
  std::function<void(const CompileProgress&)> progress{};
};

/// Programs compiled together, all or none; positions are kept, excluded ones are empty. Shared
/// code is compiled in units of up to four programs, which all processors work at, and which the
/// cache keeps apart: a program that changed does not make the others anew.
class CodeBatch {
 public:
  explicit CodeBatch(std::vector<std::optional<Code>> entries) : entries_(std::move(entries)) {}
  [[nodiscard]] std::size_t size() const noexcept { return entries_.size(); }
  /// Throws invalid_argument naming the range.
  [[nodiscard]] const std::optional<Code>& operator[](std::size_t k) const;
  [[nodiscard]] auto begin() const noexcept { return entries_.begin(); }
  [[nodiscard]] auto end() const noexcept { return entries_.end(); }
  /// The merge tensor that the code at each position reads; nullopt where there is none.
  [[nodiscard]] std::vector<std::optional<Tensor>> merge_tensors() const;

 private:
  std::vector<std::optional<Code>> entries_;
};

}  // namespace heddle
#pragma GCC visibility pop
