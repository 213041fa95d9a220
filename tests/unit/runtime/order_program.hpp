// Random programs on several devices that give the order of their steps themselves, and the closure
// of all orders that they give: what Sync::check has to tell of them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace heddle {

/// Two steps by their numbers, the earlier one first.
using StepPair = std::pair<std::size_t, std::size_t>;

/// Bytes of a memory that a step touches.
struct StepBytes {
  std::size_t memory, begin, end;
  bool writes;
  [[nodiscard]] bool overlaps(const StepBytes& other) const {
    return memory == other.memory && std::max(begin, other.begin) < std::min(end, other.end);
  }
  [[nodiscard]] bool conflicts(const StepBytes& other) const {
    return overlaps(other) && (writes || other.writes);
  }
  [[nodiscard]] bool covers(const StepBytes& other) const {
    return memory == other.memory && begin <= other.begin && other.end <= end;
  }
};

/// What a step is, by the call that asks for it. What it writes is the first of its touches.
enum class StepKind : std::uint8_t {
  own,             ///< Device::submit(): whatever it touches
  routine,         ///< that writes one, reads one, or both
  merge,           ///< merge(): writes one, reads the other
  load,            ///< load_merge(): reads one, also where it borrows that
  consume,         ///< its consumer: writes one, and reads what it borrows
  copy,            ///< of a tensor
  replay,          ///< of a copy and a routine
  from_host,       ///< of a tensor whose storage is the host array
  to_host,         ///< likewise
  copy_view,       ///< BufferView::copy_from()
  view_from_host,  ///< of memory that nobody watches
  view_to_host,    ///< likewise
  read,            ///< Context::read(), which waits
  write,           ///< Context::write(), likewise
  host_reads,      ///< HostArray::at(), by the host
  host_writes,     ///< HostArray::set(), likewise
};
inline constexpr std::size_t num_step_kinds = 16;

/// How a step is put after an earlier one.
enum class StepWait : std::uint8_t { listed, device_waits, inside, host_waits };

struct StepEdge {
  std::size_t before;
  StepWait how;
};

struct Step {
  StepKind kind;
  std::size_t device;  ///< of no meaning where the host does it itself
  std::vector<StepBytes> touches{};
  std::vector<StepEdge> after{};
  std::vector<StepEdge> left_out{};  ///< planted
  bool streams = false;              ///< merge, load, consume

  [[nodiscard]] bool is_of_host() const {
    return kind == StepKind::host_reads || kind == StepKind::host_writes;
  }
  /// The call returns when it has ended.
  [[nodiscard]] bool host_sees_end() const {
    return is_of_host() || kind == StepKind::read || kind == StepKind::write;
  }
  /// The call takes events to come after.
  [[nodiscard]] bool lists_events() const { return kind < StepKind::copy_view; }
};

/// What programs are drawn from.
struct OrderProgramKinds {
  bool all;           ///< else own tasks alone
  bool waits_inside;  ///< own tasks may wait while they run
};

class OrderProgram {
 public:
  /// Buffers of so many bytes, and the host array after them.
  static constexpr std::size_t buffers = 3, bytes = 16, host_array = buffers;
  static constexpr std::size_t steps_max = 20;

  /// Has all waits that it needs, and some others.
  OrderProgram(std::uint64_t seed, OrderProgramKinds kinds);

  /// Leaves out some of what is needed; how many.
  std::size_t plant();
  /// Leaves out one wait that is needed: the two steps that it puts in order touch the same, and
  /// no other one puts them so. None: there is none.
  std::optional<StepPair> plant_one();

  std::size_t devices = 0;
  std::vector<Step> steps;

  /// [i][k]: step k comes after step i.
  [[nodiscard]] std::vector<std::vector<bool>> closure() const;
  struct Expected {
    std::set<StepPair> all;   ///< that are not in order
    std::set<StepPair> told;  ///< of these: those that no other one stands for
  };
  [[nodiscard]] Expected expected() const;
  /// A line for each step.
  [[nodiscard]] std::string to_string() const;

 private:
  struct Pending {
    StepBytes source;
    bool streams;
  };

  std::size_t below(std::size_t n) { return random_() % n; }
  void add_step();
  [[nodiscard]] Step draw_own();
  [[nodiscard]] Step draw_step();
  [[nodiscard]] StepBytes draw_bytes(bool writes);
  /// As many bytes, which do not overlap.
  [[nodiscard]] StepBytes draw_beside(const StepBytes& other, bool writes);
  [[nodiscard]] StepWait draw_how(const Step& step);
  [[nodiscard]] bool is_stood_for(std::size_t i, std::size_t k, const StepBytes& early,
                                  const std::vector<std::vector<bool>>& before) const;

  std::mt19937_64 random_;
  const OrderProgramKinds kinds_;
  std::vector<std::optional<Pending>> loaded_;  // by each device
  std::vector<std::uint32_t> known_;            // by each step: a bit for each one before
  std::uint32_t host_ = 0;                      // by all that follow
};

}  // namespace heddle
