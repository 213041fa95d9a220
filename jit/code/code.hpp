// CodeData: the state behind a Code, and the functions that make a Code from a Program. Immutable;
// any thread.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "heddle/code.hpp"
#include "jit/code/codes.hpp"
#include "jit/code/parts.hpp"
#include "jit/describe/wishes.hpp"
#include "jit/lower/lower.hpp"
#include "jit/toolchain/compiler.hpp"

namespace heddle::jit {

/// The state behind a Code: a core, and the objects behind the core's numbers.
struct CodeData {
  std::string name;
  std::shared_ptr<const Core> core;
  std::vector<Tensor> tensors;       ///< the program's; the merge tensor comes last
  std::vector<StaticIndex> statics;  ///< the program's
  /// for `tensors` without the merge tensor, as of the start of compile()
  std::vector<Wish> wishes;
  CompileOptions options;
  std::shared_ptr<const Compiler> compiler;  ///< postponed code compiles with it again at link

  [[nodiscard]] const Signature& signature() const noexcept { return core->signature; }
  /// The tensor of an entry of the signature; null for scratch of the schedule.
  [[nodiscard]] const Tensor* tensor(std::size_t entry) const noexcept;
  [[nodiscard]] std::string_view label(std::size_t entry) const noexcept;
  /// Host storage of an entry's tensor.
  [[nodiscard]] std::optional<HostArray> host(std::size_t entry) const;
  /// `k`: the number that kernels use.
  [[nodiscard]] const StaticIndex& static_index(std::size_t k) const noexcept;
};

/// A program whose code is cached, or that is lowered and optimised. Errors in the program have
/// been reported.
struct Draft {
  CodeData code;  ///< without a core, which is still to be made
  CompileKey key;
  std::shared_ptr<Codes> codes;  ///< null: the new core is not shared
  Lowered unoptimized, lowered;
  std::chrono::nanoseconds time{};  ///< time spent up to the end of optimisation
};
/// Returns the stored choices for a program, by the program's key without choices; nullopt: none
/// stored.
using KeptChoices = std::function<std::optional<ScheduleChoices>(const CompileKey& program)>;
/// Looks up the program's code; without a hit, runs the stages lower and optimise. Throws the
/// errors of the stages, and `deadline` or `cancelled`. `codes` belongs to `compiler`; null: no
/// lookup. `kept`: called for choices where the options leave them open; empty: the cost model
/// chooses.
[[nodiscard]] Draft draft_program(const Program& program, const CompileOptions& options,
                                  const std::shared_ptr<const Compiler>& compiler,
                                  const CompileLimits& limits = {},
                                  const std::shared_ptr<Codes>& codes = nullptr,
                                  const KeptChoices& kept = {});
/// The key of the program's draft, before choices are looked up. Throws the errors of check().
[[nodiscard]] CompileKey program_key_of(const Program& program, const CompileOptions& options);
/// Runs the stages schedule, sign and compile. Throws the errors of Compiler::compile().
[[nodiscard]] Code finish(Draft draft, const CompileLimits& limits = {},
                          const Spread& spread = unspread);

/// Programs of a batch that are compiled together.
struct BatchPart {
  std::string name;  ///< the name of the unit
  std::vector<std::size_t> positions;
};
/// Several drafted programs. They are scheduled and compiled in parts; several threads may work on
/// parts at once.
struct BatchDraft {
  std::shared_ptr<const Compiler> compiler;
  std::vector<std::optional<Draft>> drafts;  ///< nullopt where there is no program to compile
  std::vector<BatchPart> parts;
  std::function<void(const CompileProgress&)> progress;
};
[[nodiscard]] BatchDraft draft_programs(std::span<const Program> programs,
                                        const BatchOptions& options,
                                        const std::shared_ptr<const Compiler>& compiler,
                                        const CompileLimits& limits = {},
                                        const std::shared_ptr<Codes>& codes = nullptr,
                                        const KeptChoices& kept = {});
/// One program with each of `choices`. Each choice is a part, and is found in the cache
/// independently.
[[nodiscard]] BatchDraft draft_choices(const Program& program, CompileOptions options,
                                       std::span<const ScheduleChoices> choices,
                                       const std::shared_ptr<const Compiler>& compiler,
                                       const CompileLimits& limits,
                                       const std::shared_ptr<Codes>& codes);
/// Throws the error of the first part, in order, that failed, independent of the order in time.
[[nodiscard]] CodeBatch finish(BatchDraft draft, const CompileLimits& limits, const Spread& spread);

/// The steps of a postponed code, compiled for buffers at these addresses (one per signature entry;
/// nullopt: passed as an argument). Shared code returns its own steps.
[[nodiscard]] std::vector<Step> specialise(const CodeData& code,
                                           std::span<const std::optional<std::uint64_t>> addresses,
                                           const Spread& spread);

}  // namespace heddle::jit
