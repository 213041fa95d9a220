// A CUDA driver under test: the stand-in of tests/cuda_standin, or the driver that
// HEDDLE_CUDA_DRIVER names, with kernels by the NVRTC that HEDDLE_NVRTC names. The comment above
// each test quotes a rule from the documentation of the driver API (cuda.h has the same text), and
// the section that it is in. One thread, where a test says no other.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "devices/cuda_driver.hpp"
#include "tests/cuda_standin/further.hpp"

namespace heddle::driver_rules {

using namespace dev::cuda;
using namespace cuda_standin;

/// A GPU with its primary context, a pool, and the kernels.
struct RuledGpu {
  Ordinal device = 0;
  Context context = nullptr;
  Pool pool = nullptr;
  DriverModule module = nullptr;
  std::map<std::string, Function> kernels{};
};

/// The driver and its GPUs: opened before the first test, closed after the last.
class Machine : public ::testing::Environment {
 public:
  void SetUp() override;
  void TearDown() override;

  std::shared_ptr<const Driver> driver;
#define HEDDLE_RULES_MEMBER(name, symbol, since, parameters) Result(*name) parameters = nullptr;
  CUDA_STANDIN_FURTHER_FUNCTIONS(HEDDLE_RULES_MEMBER)
#undef HEDDLE_RULES_MEMBER
  std::vector<RuledGpu> gpus{};
  std::vector<std::byte> image{};  ///< the kernels, for the first GPU

 private:
  void open();
};
[[nodiscard]] const Machine& machine();

/// With the first GPU's context, which is current.
class RulesTest : public ::testing::Test {
 protected:
  RulesTest();
  ~RulesTest() override;

  const Machine& cuda = machine();
  const Driver& driver = *cuda.driver;
  const RuledGpu& gpu = cuda.gpus.front();
};

/// Makes the context of a GPU current.
class OnGpu {
 public:
  explicit OnGpu(const RuledGpu& gpu);
  OnGpu(const OnGpu&) = delete;
  OnGpu& operator=(const OnGpu&) = delete;
  ~OnGpu();
};

/// A stream, and calls of the driver there. Calls fail the test when they fail.
class Work {
 public:
  explicit Work(unsigned flags = stream_non_blocking, const RuledGpu& gpu = machine().gpus.front());
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;
  ~Work();

  /// The legacy default stream.
  [[nodiscard]] static std::unique_ptr<Work> legacy();

  void launch(const std::string& kernel, std::vector<std::uint64_t> words) const;
  void copy(Address to, Address from, std::size_t bytes = sizeof(std::int64_t)) const;
  void fill(Address data, unsigned char value, std::size_t bytes) const;
  void wait(Event event) const;
  void synchronize() const;
  /// Destroys the stream now.
  void destroy();
  [[nodiscard]] Stream stream() const { return stream_; }

 private:
  explicit Work(const RuledGpu& gpu) : gpu_(gpu) {}

  const RuledGpu& gpu_;
  Stream stream_ = nullptr;
  bool owned_ = false;
};

/// An event.
class Mark {
 public:
  Mark();
  explicit Mark(const Work& work) : Mark() { record(work); }
  Mark(const Mark&) = delete;
  Mark& operator=(const Mark&) = delete;
  ~Mark();

  void record(const Work& work) const;
  void synchronize() const;
  void destroy();
  [[nodiscard]] Result query() const { return machine().driver->event_query(event_); }
  /// Whether the work is outstanding, also some milliseconds later.
  [[nodiscard]] bool stays_outstanding() const;
  [[nodiscard]] Event event() const { return event_; }

 private:
  Event event_ = nullptr;
};

/// Host memory that kernels access.
class HostNumber {
 public:
  HostNumber();
  HostNumber(const HostNumber&) = delete;
  HostNumber& operator=(const HostNumber&) = delete;
  ~HostNumber();
  [[nodiscard]] volatile std::int64_t& value() const { return *value_; }
  [[nodiscard]] Address address() const { return reinterpret_cast<Address>(value_); }

 private:
  std::int64_t* value_ = nullptr;
};

/// Holds streams until open(), or until its end.
class Gate {
 public:
  ~Gate();
  void hold(const Work& work);
  void open() const { open_.value() = 1; }

 private:
  const HostNumber open_;
  Mark last_;
};

/// A number in the memory of a GPU's pool.
class GpuNumber {
 public:
  explicit GpuNumber(std::int64_t value = 0, const RuledGpu& gpu = machine().gpus.front());
  GpuNumber(const GpuNumber&) = delete;
  GpuNumber& operator=(const GpuNumber&) = delete;
  ~GpuNumber();
  [[nodiscard]] Address address() const { return address_; }
  /// Waits for nothing but the copy.
  [[nodiscard]] std::int64_t value() const;
  /// The memory belongs to the caller.
  [[nodiscard]] Address taken();

 private:
  const RuledGpu& gpu_;
  Address address_ = 0;
};

}  // namespace heddle::driver_rules

#define EXPECT_CUDA(call) EXPECT_EQ((call), ::heddle::dev::cuda::success)
#define ASSERT_CUDA(call) ASSERT_EQ((call), ::heddle::dev::cuda::success)
/// For rules of several GPUs.
#define NEEDS_TWO_GPUS() \
  if (cuda.gpus.size() < 2) GTEST_SKIP() << "there is one GPU here"
