// Schedules: how kernels are rewritten for the processor, and which choices can replace those of
// the cost model. Plain data; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/requires.hpp"

#pragma GCC visibility push(default)
namespace heddle {

/// Controls the rewriting of kernels for the processor: tiles, vectors, packed copies. Rewritten
/// sums have another order, and use fma if the processor has it: the same on every run, from every
/// CPU compiler, and on processors with the same instruction set (BackendOptions::isa) and cache
/// sizes. On other processors the last bits of float sums may differ; elementwise values and
/// integers have the same bits everywhere.
enum class Schedule : std::uint8_t {
  automatic,
  off,  ///< loops as lowered and optimised
};

/// The steps of an automatic schedule.
enum class ScheduleStep : std::uint8_t {
  fuse,   ///< joins neighbouring loops
  hoist,  ///< computes once what iterations or statements share
  /// tiles and packs sums of products; if left out, they are scheduled like other sums
  contraction,
  reduction,    ///< gives sums several lanes, by row or by column
  transpose,    ///< transposes blocks in registers or in the cache
  elementwise,  ///< vectorises other loops
  stream,       ///< uses non-temporal stores for large outputs
  prefetch,     ///< prefetches the next row of a large input that is read again
  parallel,     ///< marks loops whose iterations may run on several processors at once
};
[[nodiscard]] std::string_view name(ScheduleStep step) noexcept;

/// The tiling of sums of products. Unset: a model of the processor chooses; with Schedule::off
/// nothing is tiled. On a GPU the tile is that of a thread, and `vectors` counts single results.
struct ContractionTile {
  std::int64_t rows = 1;     ///< rows of results summed at once, in registers
  std::int64_t vectors = 1;  ///< vectors in a row of results; registers must hold rows + 1 rows
  /// Terms summed before the next rows, from copies of the factors; 0: the model chooses.
  std::int64_t terms = 0;
};

/// Choices that override the cost model, in every statement of a program; the model makes unset
/// choices. Tuning measures the choices against the model's (TuneOptions). Choices are for one
/// processor: on another processor they may cost time, or be refused (`tile`).
struct ScheduleChoices {
  struct Tile {
    std::int64_t rows = 1;     ///< as ContractionTile::rows
    std::int64_t vectors = 1;  ///< as ContractionTile::vectors
    friend bool operator==(const Tile&, const Tile&) = default;
  };
  /// The tile of sums of products. Long sums are cut where the model's own tile would cut them, so
  /// no bit depends on `tile`. CompileOptions::contraction_tile takes precedence.
  std::optional<Tile> tile{};
  /// Terms of a sum of products between two cuts; 0 (in text "terms all"): no cuts. Affects the
  /// order of long sums.
  std::optional<std::int64_t> terms{};
  /// true: the vectors of sums of products run across the memory of their results, and are
  /// transposed before the store, if either direction is possible.
  std::optional<bool> turned{};
  /// true: a factor of sums of products is copied, to be read in order. a is the factor that is the
  /// same for every lane, b the factor with the lanes. A factor that must be copied is copied in
  /// any case.
  std::optional<bool> pack_a{}, pack_b{};
  /// Steps to leave out, in the order of ScheduleStep.
  std::vector<ScheduleStep> without{};
  /// Override the constants of KernelProfile with the same names.
  std::optional<std::int64_t> terms_ahead{}, lines_fetched{}, lines_written{}, lines_ahead{},
      rows_together{}, unrolled_steps{}, cached_bytes_max{}, part_bytes{};

  friend bool operator==(const ScheduleChoices&, const ScheduleChoices&) = default;
  /// True if every choice is the model's.
  [[nodiscard]] bool empty() const { return *this == ScheduleChoices(); }
  /// "tile 6x2; pack b; without fuse hoist; terms_ahead 32"; "as modelled" if empty().
  [[nodiscard]] std::string to_string() const;
  /// Inverse of to_string(). Throws invalid_argument naming the invalid part, and what was
  /// expected.
  [[nodiscard]] static ScheduleChoices parse(std::string_view text);
};

}  // namespace heddle
#pragma GCC visibility pop
