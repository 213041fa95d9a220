// See rules_fixture.hpp.
#include "tests/driver_rules/rules_fixture.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <type_traits>
#include <utility>

#include "tests/support/paths.hpp"
#include "tests/support/temp_directory.hpp"

namespace heddle::driver_rules {
namespace {

constexpr const char* kernel_names[] = {"add", "scale", "hold", "pass", "trap"};
constexpr const char* kernel_text = R"(
#define KERNEL extern "C" __global__ void
KERNEL add(long long* x, long long amount) { *x += amount; }
KERNEL scale(long long* x, long long factor) { *x *= factor; }
KERNEL hold(volatile long long* open) { while (*open == 0) {} }
KERNEL pass(const long long* from, long long* to) { *to = *from; }
KERNEL trap(long long) { __trap(); }
)";

Machine* const the_machine = new Machine;  // owned by GoogleTest
[[maybe_unused]] const auto* const registered = ::testing::AddGlobalTestEnvironment(the_machine);

/// The file that HEDDLE_NVRTC names; else the stand-in beside the stand-in of the driver, and the
/// NVRTC of the driver's version beside a real driver.
void* open_nvrtc(int driver_version) {
  std::vector<std::string> files{test::nvrtc_standin};
  if (const char* const named = std::getenv("HEDDLE_NVRTC")) {
    files = {named};
  } else if (std::getenv("HEDDLE_CUDA_DRIVER") != nullptr) {
    files = {"libnvrtc.so." + std::to_string(driver_version / 1000), "libnvrtc.so",
             "/usr/local/cuda/lib64/libnvrtc.so"};
  }
  void* library = nullptr;
  for (const std::string& file : files)
    if (library == nullptr) library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  return library;
}

/// The kernels as that NVRTC compiles them; empty on failure.
std::vector<std::byte> compiled(int driver_version, int capability) {
  void* const library = open_nvrtc(driver_version);
  EXPECT_NE(library, nullptr) << "there is no NVRTC: set HEDDLE_NVRTC";
  if (library == nullptr) return {};
  const auto call = [&](const char* name, auto... arguments) {
    const auto function = reinterpret_cast<int (*)(decltype(arguments)...)>(::dlsym(library, name));
    EXPECT_EQ(function(arguments...), 0) << name;
  };
  void* program = nullptr;
  std::size_t bytes = 0;
  const std::string target = "--gpu-architecture=sm_" + std::to_string(capability);
  const char* const options[] = {target.c_str()};
  const char* const* const none = nullptr;
  call("nvrtcCreateProgram", &program, kernel_text, "rules", 0, none, none);
  call("nvrtcCompileProgram", program, 1, &options[0]);
  call("nvrtcGetCUBINSize", program, &bytes);
  std::vector<std::byte> image(bytes);
  call("nvrtcGetCUBIN", program, reinterpret_cast<char*>(image.data()));
  call("nvrtcDestroyProgram", &program);
  return image;
}

}  // namespace

const Machine& machine() { return *the_machine; }

void Machine::SetUp() {
  const TempDirectory here;  // the stand-in of NVRTC leaves files
  const char* const before = std::getenv("TMPDIR");
  const std::string was = before != nullptr ? before : "/tmp";
  setenv("TMPDIR", here.path().c_str(), 1);
  open();
  setenv("TMPDIR", was.c_str(), 1);
}

void Machine::open() {
  const char* const named = std::getenv("HEDDLE_CUDA_DRIVER");
  Status why;
  driver = open_driver(named != nullptr ? named : test::cuda_standin, &why);
  ASSERT_TRUE(why.ok()) << why.to_string();
  void* const library = ::dlopen(driver->file.c_str(), RTLD_NOW | RTLD_NOLOAD);
  const auto address_of =
      reinterpret_cast<Result (*)(const char*, void**, int, std::uint64_t, int*)>(
          ::dlsym(library, "cuGetProcAddress_v2"));
  const auto find = [&](const char* symbol, auto& function) {
    void* at = nullptr;
    int found = 0;
    ASSERT_CUDA(address_of(symbol, &at, driver_version_min, 0, &found));
    ASSERT_NE(at, nullptr) << symbol;
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(at);
  };
#define HEDDLE_RULES_FIND(name, symbol, since, parameters) find(#symbol, name);
  CUDA_STANDIN_FURTHER_FUNCTIONS(HEDDLE_RULES_FIND)
#undef HEDDLE_RULES_FIND
  for (int ordinal = 0; ordinal < driver->devices; ++ordinal) {
    RuledGpu each;
    ASSERT_CUDA(driver->device_get(&each.device, ordinal));
    ASSERT_CUDA(driver->context_retain(&each.context, each.device));
    const OnGpu current(each);
    PoolProperties properties;
    properties.location.id = each.device;
    ASSERT_CUDA(driver->pool_create(&each.pool, &properties));
    int major = 0, minor = 0;
    ASSERT_CUDA(driver->device_attribute(&major, capability_major, each.device));
    ASSERT_CUDA(driver->device_attribute(&minor, capability_minor, each.device));
    if (image.empty()) image = compiled(driver->version, 10 * major + minor);
    ASSERT_FALSE(image.empty());
    ASSERT_CUDA(driver->module_load(&each.module, image.data(), 0, nullptr, nullptr));
    for (const char* const name : kernel_names)
      ASSERT_CUDA(driver->module_function(&each.kernels[name], each.module, name));
    gpus.push_back(std::move(each));
  }
  // A first launch may load a kernel, and wait for other work while it does.
  for (const RuledGpu& each : gpus) {
    const OnGpu current(each);
    const Work work(stream_non_blocking, each);
    const GpuNumber x(1, each);
    work.launch("add", {x.address(), 1});
    work.launch("scale", {x.address(), 1});
    work.launch("hold", {x.address()});
    work.launch("pass", {x.address(), x.address()});
    work.synchronize();
  }
}

void Machine::TearDown() {
  for (const RuledGpu& each : gpus) {
    {
      const OnGpu current(each);
      EXPECT_CUDA(driver->module_unload(each.module));
      EXPECT_CUDA(driver->pool_destroy(each.pool));
    }
    EXPECT_CUDA(driver->context_release(each.device));
  }
}

RulesTest::RulesTest() { EXPECT_CUDA(driver.context_push(gpu.context)); }

RulesTest::~RulesTest() {
  Context context = nullptr;
  EXPECT_CUDA(driver.context_pop(&context));
}

OnGpu::OnGpu(const RuledGpu& gpu) { EXPECT_CUDA(machine().driver->context_push(gpu.context)); }

OnGpu::~OnGpu() {
  Context context = nullptr;
  EXPECT_CUDA(machine().driver->context_pop(&context));
}

Work::Work(unsigned flags, const RuledGpu& gpu) : gpu_(gpu), owned_(true) {
  EXPECT_CUDA(machine().driver->stream_create(&stream_, flags));
}

Work::~Work() {
  if (owned_) destroy();
}

std::unique_ptr<Work> Work::legacy() {
  return std::unique_ptr<Work>(new Work(machine().gpus.front()));
}

void Work::launch(const std::string& kernel, std::vector<std::uint64_t> words) const {
  std::size_t bytes = words.size() * sizeof(std::uint64_t);
  void* extra[] = {launch_buffer, words.data(), launch_buffer_bytes, &bytes, launch_end};
  EXPECT_CUDA(machine().driver->launch(gpu_.kernels.at(kernel), 1, 1, 1, 1, 1, 1, 0, stream_,
                                       nullptr, extra));
}

void Work::copy(Address to, Address from, std::size_t bytes) const {
  EXPECT_CUDA(machine().driver->copy(to, from, bytes, stream_));
}

void Work::fill(Address data, unsigned char value, std::size_t bytes) const {
  EXPECT_CUDA(machine().driver->fill(data, value, bytes, stream_));
}

void Work::wait(Event event) const {
  EXPECT_CUDA(machine().driver->stream_wait(stream_, event, 0));
}

void Work::synchronize() const { EXPECT_CUDA(machine().driver->stream_synchronize(stream_)); }

void Work::destroy() {
  EXPECT_CUDA(machine().driver->stream_destroy(stream_));
  owned_ = false;
}

Mark::Mark() { EXPECT_CUDA(machine().driver->event_create(&event_, event_without_time)); }

Mark::~Mark() {
  if (event_ != nullptr) destroy();
}

void Mark::record(const Work& work) const {
  EXPECT_CUDA(machine().driver->event_record(event_, work.stream()));
}

void Mark::synchronize() const { EXPECT_CUDA(machine().event_synchronize(event_)); }

void Mark::destroy() {
  EXPECT_CUDA(machine().driver->event_destroy(event_));
  event_ = nullptr;
}

bool Mark::stays_outstanding() const {
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return query() == not_ready;
}

HostNumber::HostNumber() {
  void* data = nullptr;
  EXPECT_CUDA(machine().driver->host_allocate(&data, sizeof *value_, host_memory_portable));
  value_ = static_cast<std::int64_t*>(data);
  *value_ = 0;
}

HostNumber::~HostNumber() { EXPECT_CUDA(machine().driver->host_release(value_)); }

Gate::~Gate() {
  open();
  last_.synchronize();
}

void Gate::hold(const Work& work) {
  work.launch("hold", {open_.address()});
  last_.record(work);
}

GpuNumber::GpuNumber(std::int64_t value, const RuledGpu& gpu) : gpu_(gpu) {
  const OnGpu current(gpu_);
  const Work work(stream_non_blocking, gpu_);
  EXPECT_CUDA(machine().driver->allocate(&address_, sizeof value, gpu_.pool, work.stream()));
  work.copy(address_, reinterpret_cast<Address>(&value));
  work.synchronize();
}

GpuNumber::~GpuNumber() {
  if (address_ == 0) return;
  const OnGpu current(gpu_);
  const Work work(stream_non_blocking, gpu_);
  EXPECT_CUDA(machine().driver->release(address_, work.stream()));
  work.synchronize();
}

std::int64_t GpuNumber::value() const {
  const OnGpu current(gpu_);
  const Work work(stream_non_blocking, gpu_);
  std::int64_t found = 0;
  work.copy(reinterpret_cast<Address>(&found), address_);
  work.synchronize();
  return found;
}

Address GpuNumber::taken() { return std::exchange(address_, 0); }

}  // namespace heddle::driver_rules
