// CodeData: what is behind a Code, and the way from a Program to it. Immutable; any thread.
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

/// What is behind a Code: a core, and what its numbers stand for here.
struct CodeData {
  std::string name;
  std::shared_ptr<const Core> core;
  std::vector<Tensor> tensors;       ///< the program's; the merge tensor comes last
  std::vector<StaticIndex> statics;  ///< the program's
  std::vector<Wish> wishes;          ///< for `tensors` but the merge tensor, when compile() began
  CompileOptions options;
  std::shared_ptr<const Compiler> compiler;  ///< used again at link by postponed code

  [[nodiscard]] const Signature& signature() const noexcept { return core->signature; }
  /// The tensor of an entry of the signature; null for scratch of a schedule's own.
  [[nodiscard]] const Tensor* tensor(std::size_t entry) const noexcept;
  [[nodiscard]] std::string_view label(std::size_t entry) const noexcept;
  /// Host storage of an entry's tensor.
  [[nodiscard]] std::optional<HostArray> host(std::size_t entry) const;
  /// As kernels number them.
  [[nodiscard]] const StaticIndex& static_index(std::size_t k) const noexcept;
};

/// A program whose code is known, or that was lowered and optimised: what can be wrong with it was
/// found.
struct Draft {
  CodeData code;  ///< without a core: it is to be made
  CompileKey key;
  std::shared_ptr<Codes> codes;  ///< null: others do not look for what is made
  Lowered unoptimized, lowered;
  std::chrono::nanoseconds time{};  ///< spent here until it was optimised
};
/// What was kept for the program that has this key without any choices; nullopt: nothing.
using KeptChoices = std::function<std::optional<ScheduleChoices>(const CompileKey& program)>;
/// Looks for its code, else does the stages lower and optimise. Throws what those throw, and
/// `deadline` or `cancelled`. `codes` are of this compiler; null: nothing is looked for. `kept`:
/// asked for choices where the options leave them open; empty: the cost model chooses.
[[nodiscard]] Draft draft_program(const Program& program, const CompileOptions& options,
                                  const std::shared_ptr<const Compiler>& compiler,
                                  const CompileLimits& limits = {},
                                  const std::shared_ptr<Codes>& codes = nullptr,
                                  const KeptChoices& kept = {});
/// The key of a draft of the program, before any choices are looked for. Throws what check()
/// throws.
[[nodiscard]] CompileKey program_key_of(const Program& program, const CompileOptions& options);
/// Stages schedule, sign and compile. Throws what Compiler::compile() throws.
[[nodiscard]] Code finish(Draft draft, const CompileLimits& limits = {},
                          const Spread& spread = unspread);

/// Programs of a batch that are compiled together.
struct BatchPart {
  std::string name;  ///< its unit's
  std::vector<std::size_t> positions;
};
/// Several programs, drafted. They are scheduled and compiled in parts, which several threads may
/// work at.
struct BatchDraft {
  std::shared_ptr<const Compiler> compiler;
  std::vector<std::optional<Draft>> drafts;  ///< none where there is no program to compile
  std::vector<BatchPart> parts;
  std::function<void(const CompileProgress&)> progress;
};
[[nodiscard]] BatchDraft draft_programs(std::span<const Program> programs,
                                        const BatchOptions& options,
                                        const std::shared_ptr<const Compiler>& compiler,
                                        const CompileLimits& limits = {},
                                        const std::shared_ptr<Codes>& codes = nullptr,
                                        const KeptChoices& kept = {});
/// One program, with each of these choices, each of which is a part, and found in the cache,
/// by itself.
[[nodiscard]] BatchDraft draft_choices(const Program& program, CompileOptions options,
                                       std::span<const ScheduleChoices> choices,
                                       const std::shared_ptr<const Compiler>& compiler,
                                       const CompileLimits& limits,
                                       const std::shared_ptr<Codes>& codes);
/// Throws the error of the first part that failed, in order, whichever failed first in time.
[[nodiscard]] CodeBatch finish(BatchDraft draft, const CompileLimits& limits, const Spread& spread);

/// The steps of a postponed code, compiled for buffers at these addresses (one per signature entry;
/// nullopt: passed as an argument). Shared code returns its own.
[[nodiscard]] std::vector<Step> specialise(const CodeData& code,
                                           std::span<const std::optional<std::uint64_t>> addresses,
                                           const Spread& spread);

}  // namespace heddle::jit
