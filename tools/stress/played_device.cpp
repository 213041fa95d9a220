// See played_device.hpp.
#include "tools/stress/played_device.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <stdexcept>
#include <utility>

#include "heddle/image.hpp"
#include "tools/stress/runtime_programs.hpp"

namespace heddle::stress {
namespace {

using namespace std::chrono_literals;

/// The fraction of a formula computed by a part.
void compute(PlayedHardware& hardware, const RuntimeKernel& kernel,
             const heddle_kernel_args& args) {
  const Formula& formula = *kernel.formula;
  std::array<std::uint64_t*, num_operands> operands{};
  for (std::size_t k = 0; k < kernel.operands.size(); ++k) {
    hardware.touch(args.buffers[k].data, args.buffers[k].bytes);
    operands[static_cast<std::size_t>(kernel.operands[k])] =
        static_cast<std::uint64_t*>(args.buffers[k].data);
  }
  std::uint64_t* const to = operands[static_cast<std::size_t>(formula.to)];
  if (operands[static_cast<std::size_t>(Operand::merged)] == to)
    hardware.fail("a kernel writes what it reads as the merge buffer");
  const std::size_t cells = cells_of(formula.to);
  for (std::size_t k = cells * args.part / args.num_parts;
       k < cells * (args.part + 1) / args.num_parts; ++k) {
    if (formula.one_row && k != static_cast<std::size_t>(args.statics[0])) continue;
    std::uint64_t sum = formula.constant;
    for (std::size_t o = 0; o < num_operands; ++o) {
      if (formula.factors[o] != 0) sum += formula.factors[o] * operands[o][formula.read_for(k, o)];
    }
    to[k] = sum;
  }
}

/// Kernels in parts are functions with access to their arguments alone.
template <std::size_t number>
void compute_part(const heddle_kernel_args* args) {
  PlayedHardware& hardware = PlayedHardware::here();
  hardware.count();
  if (args->num_parts > 1) {
    hardware.count_part();
  } else if (hardware.fails()) {  // a failed kernel has written nothing, so no single part fails
    *args->status = {1, 0};
    return;
  }
  compute(hardware, runtime_programs().kernels[number].second, *args);
}

constexpr std::size_t kernels_max = 16;
constexpr auto functions = []<std::size_t... number>(std::index_sequence<number...>) {
  return std::array<heddle_kernel_function, kernels_max>{&compute_part<number>...};
}(std::make_index_sequence<kernels_max>());

/// Kernels that are formulas.
class PlayedModule final : public dev::Module {
 public:
  explicit PlayedModule(const Image& image) {
    for (const ImageKernel& kernel : image.kernels())
      numbers_.push_back(runtime_programs().kernel(kernel.symbol));
    if (runtime_programs().kernels.size() > kernels_max)
      throw std::logic_error("there are more kernels than functions that play them");
  }
  [[nodiscard]] const RuntimeKernel& kernel(std::size_t number) const {
    return runtime_programs().kernels.at(numbers_.at(number)).second;
  }
  [[nodiscard]] heddle_kernel_function host_function(std::size_t number) const noexcept override {
    return functions[numbers_[number]];
  }

 private:
  std::vector<std::size_t> numbers_;
};

struct Line;

/// A request to a queue that runs ahead: an operation, a wait for another queue, or a report once
/// all earlier requests have ended.
struct Asked {
  std::function<void()> run{};
  bool fails = false;
  std::shared_ptr<Line> other{};
  std::uint64_t number = 0;  // of the other queue, or of this one
  [[nodiscard]] bool tells() const noexcept { return !run && !other; }
};

struct Line {
  explicit Line(dev::Completions& by) : told(&by) {}
  dev::Completions* const told;
  std::deque<Asked> asked;
  bool busy = false;
  std::uint64_t until = 0;  // the last number that a waiter needs
  std::uint64_t ended = 0;  // the last number up to which all requests have ended
  Status failed;            // the failure after that number
};

/// One host of the simulation at a time reports ends, in order.
struct Domain {
  bool waits = false;  // its queues wait for one another on the device
  struct Notice {
    std::shared_ptr<Line> line;
    std::uint64_t number;
    Status status;
  };
  std::deque<Notice> notices;
  bool telling = false;

  static void tell(const std::shared_ptr<Domain>& domain) {
    if (std::exchange(domain->telling, true)) return;
    while (!domain->notices.empty()) {
      Notice notice = std::move(domain->notices.front());
      domain->notices.pop_front();
      notice.line->told->ended(notice.number, std::move(notice.status));
    }
    domain->telling = false;
  }
};

class PlayedQueue final : public dev::Queue {
 public:
  PlayedQueue(PlayedHardware& hardware, const dev::PhysicalDevice& device,
              dev::Completions& completions, std::shared_ptr<Domain> domain)
      : hardware_(hardware),
        device_(device),
        line_(std::make_shared<Line>(completions)),
        domain_(std::move(domain)) {}
  ~PlayedQueue() override {
    // Outstanding operations at this point mean that the owner did not keep the resources that they
    // use. Waits use none.
    const bool left = std::ranges::any_of(
        line_->asked, [](const Asked& asked) { return asked.other == nullptr; });
    if (left) hardware_.fail("a queue went before its operations");
    // Removes the notices of this queue, which have no waiter any more.
    if (domain_)
      std::erase_if(domain_->notices, [&](const auto& notice) { return notice.line == line_; });
  }
  PlayedQueue(const PlayedQueue&) = delete;
  PlayedQueue& operator=(const PlayedQueue&) = delete;

  // Initial values fail on no device: otherwise the contents of that memory would be unknown.
  Status zero(void* data, std::size_t bytes) noexcept override {
    return ask(false, [this, data, bytes] {
      hardware_.touch(data, bytes);
      std::memset(data, 0, bytes);
    });
  }
  Status from_host(void* data, const void* host, std::size_t bytes) noexcept override {
    return ask(false, [this, data, host, bytes] {
      hardware_.touch(data, bytes);
      std::memcpy(data, host, bytes);
    });
  }
  Status to_host(void* host, const void* data, std::size_t bytes) noexcept override {
    return ask(hardware_.fails(), [this, host, data, bytes] {
      hardware_.touch(data, bytes);
      std::memcpy(host, data, bytes);
    });
  }
  Status copy(void* to, const void* from, std::size_t bytes) noexcept override {
    return ask(hardware_.fails(), [this, to, from, bytes] {
      const auto* const a = static_cast<const std::byte*>(to);
      const auto* const b = static_cast<const std::byte*>(from);
      const std::less<> before;  // addresses of different blocks
      if (before(a, b + bytes) && before(b, a + bytes))
        hardware_.fail("a device was asked to copy between bytes that overlap");
      hardware_.touch(to, bytes);
      hardware_.touch(from, bytes);
      std::memcpy(to, from, bytes);
    });
  }
  Status launch(const dev::Module& module, std::size_t kernel,
                const heddle_kernel_args& args) noexcept override {
    const RuntimeKernel& played = static_cast<const PlayedModule&>(module).kernel(kernel);
    return ask(hardware_.fails(), [this, &played, args] { compute(hardware_, played, args); });
  }
  Status record(std::uint64_t number) noexcept override {
    line_->asked.push_back({.number = number});
    hardware_.simulation().host("queue", [&hardware = hardware_, line = line_, domain = domain_,
                                          number] { run_until(hardware, line, domain, number); });
    return {};
  }
  Status wait(const dev::Mark& mark) noexcept override {
    if (!domain_->waits) return Queue::wait(mark);
    const auto& other = static_cast<const PlayedQueue&>(*mark.queue);
    hardware_.count_wait(&other.device_ != &device_);
    line_->asked.push_back({.other = other.line_, .number = mark.number});
    return {};
  }

 private:
  template <class Run>
  Status ask(bool fails, Run run) {
    hardware_.count();
    const bool now = !domain_ || (fails && hardware_.simulation().random(2) == 0);
    if (now && fails) return Status(ErrorCode::device_failed, "planted by the device");
    if (domain_) {
      line_->asked.push_back({.run = std::move(run), .fails = fails});
    } else {
      run();
    }
    return {};
  }

  /// Called in a host of the simulation, one at a time for each queue.
  static void run_until(PlayedHardware& hardware, const std::shared_ptr<Line>& line,
                        const std::shared_ptr<Domain>& domain, std::uint64_t number) {
    Simulation& simulation = hardware.simulation();
    simulation.sleep_for(std::chrono::nanoseconds(1000 << simulation.random(6)));
    line->until = std::max(line->until, number);
    if (std::exchange(line->busy, true)) return;
    while (!line->asked.empty() &&
           (!line->asked.front().tells() || line->asked.front().number <= line->until)) {
      if (simulation.random(2) == 0) simulation.yield();
      run_first_of(simulation, line, *domain);
    }
    line->busy = false;
    Domain::tell(domain);
  }

  static void run_first_of(Simulation& simulation, const std::shared_ptr<Line>& line,
                           Domain& domain) {
    const Asked asked = std::move(line->asked.front());
    line->asked.pop_front();
    if (asked.other) {
      while (asked.other->ended < asked.number) simulation.sleep_for(1us);
    } else if (asked.tells()) {
      line->ended = asked.number;
      domain.notices.push_back({line, asked.number, std::exchange(line->failed, {})});
    } else if (!asked.fails) {
      asked.run();
    } else if (line->failed.ok()) {
      line->failed = Status(ErrorCode::device_failed, "planted by the device, at the end");
    }
  }

  PlayedHardware& hardware_;
  const dev::PhysicalDevice& device_;
  const std::shared_ptr<Line> line_;
  const std::shared_ptr<Domain> domain_;  // null: operations are complete when they return
};

class PlayedDevice final : public dev::PhysicalDevice {
 public:
  /// `domain`: null: its operations are complete when they return.
  PlayedDevice(PlayedHardware& hardware, PlayedKind kind, std::shared_ptr<Domain> domain)
      : hardware_(hardware), is_peer_(kind.is_peer), domain_(std::move(domain)) {
    properties_.name = "played";
    if (kind.own_memory) properties_.memory_space = reinterpret_cast<std::uintptr_t>(this);
    properties_.completion_domain = reinterpret_cast<std::uintptr_t>(domain_.get());
    properties_.parts_at_once = kind.in_parts && domain_ == nullptr;
  }

  const dev::Properties& properties() const noexcept override { return properties_; }
  Status allocate(std::size_t bytes, void** data) noexcept override {
    return hardware_.allocate(bytes, data);
  }
  void release(void* data, std::size_t /*bytes*/) noexcept override { hardware_.release(data); }
  Status new_queue(dev::Completions& completions,
                   std::unique_ptr<dev::Queue>* queue) noexcept override {
    return dev::make_queue<PlayedQueue>(queue, hardware_, *this, completions, domain_);
  }
  [[nodiscard]] bool is_peer_of(const PhysicalDevice& other) const noexcept override {
    const auto* const played = dynamic_cast<const PlayedDevice*>(&other);
    return is_peer_ && played != nullptr && played->is_peer_;
  }
  [[nodiscard]] Status load(const Image& image, const dev::LoadOptions& /*options*/,
                            std::shared_ptr<const dev::Module>* module) noexcept override {
    *module = std::make_shared<const PlayedModule>(image);
    return {};
  }

 private:
  PlayedHardware& hardware_;
  const bool is_peer_;
  const std::shared_ptr<Domain> domain_;
  dev::Properties properties_;
};

}  // namespace

namespace {

PlayedHardware*& latest() noexcept {
  static thread_local PlayedHardware* hardware = nullptr;
  return hardware;
}

}  // namespace

PlayedHardware& PlayedHardware::here() noexcept { return *latest(); }

PlayedHardware::PlayedHardware(Simulation& simulation) : simulation_(simulation) {
  latest() = this;
  // In most seeds no operation fails: failures often hide other bugs.
  if (simulation_.random(3) == 0) one_failure_in_ = std::uint64_t{8} << simulation_.random(4);
}

std::vector<std::shared_ptr<dev::PhysicalDevice>> PlayedHardware::make(
    const std::vector<PlayedKind>& kinds) {
  const bool one_domain = simulation_.random(2) == 0;
  std::vector<std::shared_ptr<dev::PhysicalDevice>> devices;
  std::shared_ptr<Domain> last;
  for (const PlayedKind& kind : kinds) {
    if (kind.runs_ahead && !(one_domain && last)) {
      last = std::make_shared<Domain>();
      last->waits = simulation_.random(4) != 0;
    }
    devices.push_back(
        std::make_shared<PlayedDevice>(*this, kind, kind.runs_ahead ? last : nullptr));
  }
  return devices;
}

bool PlayedHardware::fails() {
  if (one_failure_in_ == 0 || simulation_.random(one_failure_in_) != 0) return false;
  ++failures_;
  return true;
}

Status PlayedHardware::allocate(std::size_t bytes, void** data) noexcept {
  *data = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
  if (*data == nullptr) return Status(ErrorCode::exhausted, "the played device is full");
  std::memset(*data, 0xA5, bytes);  // not zeros
  blocks_.emplace(static_cast<const std::byte*>(*data), bytes);
  return {};
}

void PlayedHardware::release(void* data) noexcept {
  const auto at = blocks_.find(static_cast<const std::byte*>(data));
  if (at == blocks_.end()) return fail("memory was given back that no device has");
  blocks_.erase(at);
  std::free(data);
}

void PlayedHardware::touch(const void* data, std::size_t bytes) {
  const auto* const begin = static_cast<const std::byte*>(data);
  const auto after = blocks_.upper_bound(begin);
  if (after != blocks_.begin()) {
    const auto& [block, size] = *std::prev(after);
    if (begin + bytes <= block + size) return;
  }
  fail("an operation touches memory that no device has");
}

}  // namespace heddle::stress
