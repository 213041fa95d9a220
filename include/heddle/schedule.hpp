// How kernels are rewritten for the processor: what a program may ask of schedules, and what may be
// chosen otherwise than the cost model does. Plain data; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/requires.hpp"

#pragma GCC visibility push(default)
namespace heddle {

/// Whether kernels are rewritten for the processor: tiles, vectors, packed copies. Sums then have
/// another order, and use fma where the processor has it: the same on every run, from every CPU
/// compiler, and on processors of the same instruction set (BackendOptions::isa) and cache sizes.
/// Between others the last bits of float sums may differ; elementwise values and integers have
/// the same bits everywhere.
enum class Schedule : std::uint8_t {
  automatic,
  off,  ///< loops as lowered and optimised
};

/// What an automatic schedule does, step by step.
enum class ScheduleStep : std::uint8_t {
  fuse,         ///< joins neighbouring loops
  hoist,        ///< computes once what iterations or statements share
  contraction,  ///< tiles and packs sums of products; without it they are sums like others
  reduction,    ///< gives sums several lanes, by row or by column
  transpose,    ///< turns blocks in registers or in the cache
  elementwise,  ///< runs other loops as vectors
  stream,       ///< stores large outputs past the caches
  prefetch,     ///< fetches the next row of a large input while one is read again
  parallel,     ///< marks loops whose iterations may run on several processors at once
};
[[nodiscard]] std::string_view name(ScheduleStep step) noexcept;

/// How sums of products are cut. Without it, a model of the processor chooses; with Schedule::off
/// nothing is cut. On a GPU it is what each thread has, and `vectors` are single results.
struct ContractionTile {
  std::int64_t rows = 1;     ///< rows of results that are summed at once, in registers
  std::int64_t vectors = 1;  ///< vectors in a row of results; registers must hold rows + 1 rows
  /// Terms that are summed before the next rows, from copies of the factors; 0: the model chooses.
  std::int64_t terms = 0;
};

/// What a schedule chooses otherwise than the cost model, in all statements of a program; what is
/// unset, the model chooses. Tuning measures such choices against the model's (TuneOptions). They
/// are for one processor: on another they may only cost time, or be refused (`tile`).
struct ScheduleChoices {
  struct Tile {
    std::int64_t rows = 1;     ///< as ContractionTile::rows
    std::int64_t vectors = 1;  ///< as ContractionTile::vectors
    friend bool operator==(const Tile&, const Tile&) = default;
  };
  /// Of sums of products. Long sums are cut where the model's own tile would have them cut, so that
  /// no bit depends on it. CompileOptions::contraction_tile goes before it.
  std::optional<Tile> tile{};
  /// Terms of such a sum between two cuts; 0 (in text "terms all"): it is not cut. It decides the
  /// order of long sums.
  std::optional<std::int64_t> terms{};
  /// Whether the vectors of such sums run across the memory that they are stored to, and are turned
  /// before that, where either way is possible.
  std::optional<bool> turned{};
  /// Whether the factors of sums of products are copied to be read in order: the one that is the
  /// same for all lanes, and the one that has them. Where a factor has to be copied, it is.
  std::optional<bool> pack_a{}, pack_b{};
  /// Steps that are left out, in the order of ScheduleStep.
  std::vector<ScheduleStep> without{};
  /// In place of what KernelProfile has by these names.
  std::optional<std::int64_t> terms_ahead{}, lines_fetched{}, lines_written{}, lines_ahead{},
      rows_together{}, unrolled_steps{}, cached_bytes_max{}, part_bytes{};

  friend bool operator==(const ScheduleChoices&, const ScheduleChoices&) = default;
  /// All is the model's.
  [[nodiscard]] bool empty() const { return *this == ScheduleChoices(); }
  /// "tile 6x2; pack b; without fuse hoist; terms_ahead 32"; "as modelled" where all is the
  /// model's.
  [[nodiscard]] std::string to_string() const;
  /// Inverse of to_string(). Throws invalid_argument naming the part that is none, and what was
  /// expected.
  [[nodiscard]] static ScheduleChoices parse(std::string_view text);
};

}  // namespace heddle
#pragma GCC visibility pop
