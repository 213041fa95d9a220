// See tune/candidates.hpp.
#include "jit/tune/candidates.hpp"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "jit/loop/rewrite.hpp"
#include "jit/loop/text.hpp"
#include "jit/schedule/choices.hpp"
#include "jit/schedule/contraction.hpp"
#include "jit/schedule/schedule.hpp"
#include "jit/tune/estimate.hpp"

namespace heddle::jit {
namespace {

/// The number of tiles combined with each way of packing: more candidates would each be measured
/// too rarely.
constexpr std::size_t packed_tiles = 8;

class Lister {
 public:
  Lister(const Lowered& optimized, const Target& target, const CompileOptions& asked,
         const CandidateOptions& options)
      : optimized_(optimized), target_(target), asked_(asked), options_(options) {}

  std::vector<TunedCandidate> list() {
    const Loop model = scheduled({});
    orders_ = sum_orders(model);
    seen_.insert(identity(model, {}));
    default_.estimated_us = estimated_us(model, target_);
    if (has_contraction(model)) add_contractions();
    for (const ProfileChoice& each : profile_choices) add_constants(each);
    add_steps();
    std::ranges::sort(found_, {}, [](const TunedCandidate& each) {
      return std::pair(each.estimated_us, each.choices.to_string());
    });
    if (found_.size() + 1 > options_.most)
      found_.resize(std::max<std::size_t>(options_.most, 1) - 1);
    found_.insert(found_.begin(), default_);
    return std::move(found_);
  }

 private:
  [[nodiscard]] Loop scheduled(const ScheduleChoices& choices) const {
    return schedule(optimized_, target_, asked_.schedule_without, asked_.contraction_tile, choices,
                    asked_.fast_math, asked_.unordered_scatters)
        .loop;
  }

  /// Distinguishes kernels. The number of parts is not in the kernel's text.
  [[nodiscard]] std::string identity(const Loop& loop, const ScheduleChoices& choices) const {
    bool parts = false;
    for (const StmtPtr& stmt : loop.body) parts = parts || stmt->mark == LoopMark::parallel;
    const std::int64_t each = with_choices(target_, choices).profile.part_bytes;
    return hash(loop) + (parts ? " " + std::to_string(each) : std::string());
  }

  static bool has_contraction(const Loop& loop) {
    bool has = false;
    walk(loop.body, [&](const Stmt& stmt) {
      has = has || (stmt.kind == StmtKind::comment && stmt.text.starts_with("contraction: "));
    });
    return has;
  }

  /// Adds a candidate if new and near; returns its estimate, or nullopt.
  std::optional<double> add(const ScheduleChoices& choices) {
    if (options_.enough && options_.enough()) return std::nullopt;
    const Loop loop = scheduled(choices);
    if (!seen_.insert(identity(loop, choices)).second) return std::nullopt;
    TunedCandidate made{.choices = choices};
    made.same_order = asked_.fast_math || sum_orders(loop) == orders_;
    if (!made.same_order && !options_.reassociate) return std::nullopt;
    made.estimated_us = estimated_us(loop, with_choices(target_, choices));
    if (made.estimated_us > options_.near * default_.estimated_us) return std::nullopt;
    found_.push_back(made);
    return made.estimated_us;
  }

  /// The ways to copy factors; where a factor is newly copied, a variant without cuts of its sum is
  /// added.
  static std::vector<ScheduleChoices> packings() {
    std::vector<ScheduleChoices> ways;
    for (const bool a : {false, true}) {
      for (const bool b : {false, true}) {
        ways.push_back({.pack_a = a, .pack_b = b});
        if (a || b) ways.push_back({.terms = 0, .pack_a = a, .pack_b = b});
      }
    }
    return ways;
  }

  void add_contractions() {
    std::vector<std::pair<double, ScheduleChoices>> tiles{{default_.estimated_us, {}}};
    if (!asked_.contraction_tile) {
      const std::int64_t free = tile_registers(target_);
      for (const std::optional<bool> turned : {std::optional<bool>(), {true}, {false}}) {
        for (std::int64_t v = 1; v <= 8; ++v) {
          for (std::int64_t r = 1; r * v + v <= free; ++r) {
            const ScheduleChoices choices{.tile = ScheduleChoices::Tile{r, v}, .turned = turned};
            if (const auto time = add(choices)) tiles.emplace_back(*time, choices);
          }
        }
      }
    }
    for (const bool turned : {true, false}) {
      const ScheduleChoices choices{.turned = turned};
      if (const auto time = add(choices)) tiles.emplace_back(*time, choices);
    }
    std::ranges::sort(tiles, {}, [](const std::pair<double, ScheduleChoices>& each) {
      return std::pair(each.first, each.second.to_string());
    });
    if (tiles.size() > packed_tiles) tiles.resize(packed_tiles);
    for (ScheduleChoices& way : packings()) {
      for (const auto& [time, choices] : tiles) {
        way.tile = choices.tile;
        way.turned = choices.turned;
        add(way);
      }
    }
    const bool any_order = options_.reassociate || asked_.fast_math;
    if (!any_order || asked_.contraction_tile) return;
    for (const std::int64_t terms : {64, 128, 256, 512, 1024, 0}) add({.terms = terms});
  }

  void add_constants(const ProfileChoice& each) {
    const std::int64_t model = target_.profile.*each.value->value;
    for (const std::int64_t times : options_.factors) {
      for (const std::int64_t value : {model / times, model * times}) {
        if (value < 1 || value > each.value->most || value == model) continue;
        ScheduleChoices choices;
        choices.*each.choice = value;
        add(choices);
      }
    }
  }

  void add_steps() {
    for (const ScheduleStep step :
         {ScheduleStep::fuse, ScheduleStep::hoist, ScheduleStep::contraction,
          ScheduleStep::reduction, ScheduleStep::transpose, ScheduleStep::elementwise,
          ScheduleStep::stream, ScheduleStep::prefetch, ScheduleStep::parallel}) {
      add({.without = {step}});
    }
    add({.without = {ScheduleStep::fuse, ScheduleStep::hoist}});
    add({.without = {ScheduleStep::stream, ScheduleStep::prefetch}});
  }

  const Lowered& optimized_;
  const Target& target_;
  const CompileOptions& asked_;
  const CandidateOptions& options_;
  TunedCandidate default_;
  std::vector<std::string> orders_;  // of the model's choice
  std::set<std::string> seen_;       // identities
  std::vector<TunedCandidate> found_;
};

}  // namespace

std::vector<TunedCandidate> list_candidates(const Lowered& optimized, const Target& target,
                                            const CompileOptions& asked,
                                            const CandidateOptions& options) {
  return Lister(optimized, target, asked, options).list();
}

}  // namespace heddle::jit
